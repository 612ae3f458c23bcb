"""From the YAML that people have to the inventory that makes it: the builders, backwards."""
