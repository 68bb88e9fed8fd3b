"""The version of this service, in the numbering of the OpenStack Placement releases it replaces."""

VERSION = "17.0.0"
