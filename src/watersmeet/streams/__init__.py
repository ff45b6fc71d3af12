"""What streams bring: windows and clocks, batches and schemas, who arrived when, and the rows that are kept."""
