"""The environments that ship, a folder each; `import karotte_gym` registers them as ``karotte/<task-id>``.

The id is the folder's name with dashes for its underscores: ``q3_revenue/`` is ``karotte/q3-revenue``.
"""
