//! openraft over RocksDB: log, vote, mirrored state and snapshots, generic over what is applied.
