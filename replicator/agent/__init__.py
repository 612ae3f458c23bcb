"""The asyncio shell around the core: files, sockets, timers, backups, metrics."""
