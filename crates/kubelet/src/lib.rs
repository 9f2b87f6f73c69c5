//! The kubelet's HTTP server: container logs, exec, attach and port-forward.
//!
//! Paths, query parameters and messages are those of the kubelet, since a kube-apiserver may call this server.
//! [`KubeletServer`] serves requests passed in process or received by its TLS listener ([`KubeletServer::listen`]).
//!
//! # Guarantees
//!
//! - An exec'd command is killed when its client disconnects and when the server stops.
//! - Streams, frames and queues are bounded by named constants.
//! - Nothing blocks the threads of the tokio runtime: pipes are asynchronous, files and processes have their own
//!   threads.
//!
//! # Deliberately absent
//!
//! SPDY as transport: current clients use WebSockets. Authorization: the API server authorizes requests; callers of
//! [`KubeletServer::serve`] are that API server or present a client certificate of the cluster CA.

mod attach;
pub mod dns;
mod exec;
mod listener;
mod logs;
mod options;
mod pipe;
mod port_forward;
mod response;
mod route;
mod serve;
mod session;
mod status;
pub mod subprotocol;
mod tunnel;
mod upgrade;

use std::sync::Arc;

use muster_api::environment::Clock;
use muster_process::{ContainerRuntime, PodRegistry};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use listener::{KubeletListener, ListenError};
pub use response::{KubeletResponse, KubeletResponseBody};

/// Concurrent exec, attach, port-forward and log streams.
pub const STREAMS_MAX: usize = 256;

/// Serves the kubelet API of one node.
pub struct KubeletServer {
    containers: Arc<dyn ContainerRuntime>,
    roster: Arc<PodRegistry>,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl KubeletServer {
    /// Serves the containers of the registered pods.
    #[must_use]
    pub fn new(
        containers: Arc<dyn ContainerRuntime>,
        roster: Arc<PodRegistry>,
        clock: Arc<dyn Clock>,
    ) -> KubeletServer {
        let places = Arc::new(Semaphore::new(STREAMS_MAX));
        KubeletServer { containers, roster, clock, places, stop: watch::Sender::new(false) }
    }

    /// Closes all streams and kills exec'd commands. Later streams are rejected.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.places.close();
    }

    fn stopping(&self) -> ShutdownSignal {
        ShutdownSignal(self.stop.subscribe())
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, response::HttpError> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            response::HttpError::new(429, format!("too many streams: this node serves {STREAMS_MAX} at once"))
        })
    }
}

/// Resolves when the server stops.
#[derive(Clone)]
pub(crate) struct ShutdownSignal(watch::Receiver<bool>);

impl ShutdownSignal {
    pub async fn stopped(&mut self) {
        // An error means that the server was dropped.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
