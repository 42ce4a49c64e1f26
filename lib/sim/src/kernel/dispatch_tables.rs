//! Shared dispatch tables: the machine's tables and its kernel hold one value. A change makes a new value.

use millpond_formats::dispadmin::default_tables;
use millpond_model::DispatchTables;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::{Arc, LazyLock};

static STANDARD: LazyLock<Arc<DispatchTables>> = LazyLock::new(|| Arc::new(default_tables(false)));

/// The tables of a machine with default tunables.
pub fn standard() -> Arc<DispatchTables> {
    Arc::clone(&STANDARD)
}

pub(super) fn is_standard(tables: &Arc<DispatchTables>) -> bool {
    *tables == *STANDARD
}

/// For serde, which does not serialize `Arc`.
pub fn serialize<S: Serializer>(tables: &Arc<DispatchTables>, to: S) -> Result<S::Ok, S::Error> {
    tables.as_ref().serialize(to)
}

/// For serde.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<DispatchTables>, D::Error> {
    DispatchTables::deserialize(from).map(Arc::new)
}
