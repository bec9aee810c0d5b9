//! The wire: services, messages, conversions and versions.
