"""What is served under ``/-/``, and what watches writes for it: a package for each subject.

Its modules ``extension``, ``options``, ``rules``, ``figures`` and ``watchers`` are found by their names.
"""

EXTENSIONS = ("claims", "plans", "feed", "history", "metrics", "explorer", "questions", "trees")
"""The extensions that are installed. Their options and figures are shown in this order."""
