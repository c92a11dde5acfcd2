"""The environments that ship, a folder each; `import karotte_gym` registers them as ``karotte/<folder-name>``."""
