//! Dialling a controller: over its Unix socket on the same machine, over TCP from a node.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::{MESSAGE_MAX_BYTES, pb::controller_client::ControllerClient, pb::node_link_client::NodeLinkClient};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a controller could not be reached.
#[derive(Debug, Error)]
#[error("no controller answers at {at}")]
pub struct ConnectError {
    /// Where it was looked for.
    pub at: String,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Connects to the controller behind a Unix socket.
///
/// # Errors
/// Nothing listens there, or the caller may not connect.
pub async fn connect_local(socket: &Path) -> Result<ControllerClient<Channel>, ConnectError> {
    let at = socket.display().to_string();
    let path = socket.to_path_buf();
    let channel = Endpoint::from_static("http://controller")
        .connect_timeout(CONNECT_TIMEOUT)
        .connect_with_connector(service_fn(move |_: Uri| dial(path.clone())))
        .await
        .map_err(|error| ConnectError { at, source: error.into() })?;
    Ok(ControllerClient::new(channel)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES))
}

async fn dial(path: PathBuf) -> io::Result<TokioIo<UnixStream>> {
    Ok(TokioIo::new(UnixStream::connect(path).await?))
}

/// Connects a node to the controller at `address` (`host:port`).
///
/// # Errors
/// Nothing listens there.
pub async fn connect_link(address: &str) -> Result<NodeLinkClient<Channel>, ConnectError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| ConnectError { at: address.to_owned(), source };
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| fail(error.into()))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .connect()
        .await
        .map_err(|error| fail(error.into()))?;
    Ok(NodeLinkClient::new(channel)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES))
}
