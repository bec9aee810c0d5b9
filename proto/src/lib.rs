//! The wire: services, messages, conversions and versions.
//!
//! Nothing else in gpunion knows how bytes look between machines. [`pb`] is generated from `proto/gpunion/v1/*.proto`;
//! [`client`] dials controllers, [`quick`] does so for a command that asks once; [`node_key`] proves a node's membership;
//! [`step`] frames what srun and a step's node say.

pub mod client;
pub mod hpack;
pub mod node_key;
pub mod quick;
pub mod step;

/// The messages and services, generated from the schema.
pub mod pb {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]
    tonic::include_proto!("gpunion.v1");
}

pub use gpun_core as core;
pub use gpun_core::mirror::{decode, encode};

/// The version of the conversation between node and controller. A node of another version is told so, in words.
pub const WIRE_VERSION: u32 = 1;

/// Largest message, in bytes: a submission's script and environment, or a chunk of a listing.
pub const MESSAGE_MAX_BYTES: usize = 16 << 20;

/// The Unix socket of a controller, below its cluster's folder.
pub const CONTROLLER_SOCKET: &str = "ctl.sock";

/// The file with the cluster's node key, below its cluster's folder.
pub const NODE_KEY_FILE: &str = "node.key";
