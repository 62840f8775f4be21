"""The asyncio consumer's driver, guard and settings, without a broker."""
