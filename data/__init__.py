"""What a record is, how it is read, and how it becomes a batch. The package holds code, no data."""
