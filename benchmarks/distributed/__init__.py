"""What Ray adds: transitions of many workers, catalogues in shards, and what both make of losses."""
