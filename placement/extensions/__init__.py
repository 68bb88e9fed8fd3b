"""The extensions, which serve ``/-/`` and watch writes: one package for each subject.

The modules ``extension``, ``options``, ``rules``, ``figures`` and ``watchers`` of a package are found by
name.
"""

EXTENSIONS = ("claims", "plans", "feed", "history", "metrics", "explorer", "questions", "trees")
"""The installed extensions. Their options and figures are shown in this order."""
