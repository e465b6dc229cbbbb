"""The store on PostgreSQL: connections, transactions, tables, search index."""
