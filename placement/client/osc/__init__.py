"""Commands of ``openstack`` for operators, in addition to those of osc-placement."""
