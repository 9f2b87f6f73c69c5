//! The HTTP side of a node: logs, commands, attaching and ports of its containers.
//!
//! The paths, queries and words are those of a real kubelet, because a real API server calls them too. [`Kubelet`]
//! answers requests wherever they come from: handed over in process, or from its own TLS door ([`Kubelet::listen`]).
//!
//! # Invariants
//!
//! - A command that was started for a client ends when that client is gone, and when the server stops.
//! - A client can make nothing grow: streams, frames and queues have bounds with names.
//! - Nothing waits on the threads of the runtime: pipes are asynchronous, files and processes have threads of their own.
//!
//! # Deliberately absent
//!
//! SPDY as a protocol of its own: every client of today speaks WebSockets. Who may do what: whoever reaches
//! [`Kubelet::serve`] has been let in by the API server, or shows a certificate of the cluster's authority.

mod answer;
mod attach;
pub mod dialect;
pub mod dns;
mod exec;
mod forward;
mod listen;
mod logs;
mod options;
mod path;
mod pipe;
mod serve;
mod session;
mod status;
mod tunnel;
mod upgrade;

use std::sync::Arc;

use muster_api::ports::Clock;
use muster_process::{Containers, Roster};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use answer::{Answer, AnswerBody};
pub use listen::{ListenError, Listening};

/// Commands, attachments, forwarded ports and followed logs at once.
pub const STREAMS_MAX: usize = 256;

/// Answers what is asked of a node.
pub struct Kubelet {
    containers: Arc<dyn Containers>,
    roster: Arc<Roster>,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl Kubelet {
    /// For the containers of the pods on the roster.
    #[must_use]
    pub fn new(containers: Arc<dyn Containers>, roster: Arc<Roster>, clock: Arc<dyn Clock>) -> Kubelet {
        let places = Arc::new(Semaphore::new(STREAMS_MAX));
        Kubelet { containers, roster, clock, places, stop: watch::Sender::new(false) }
    }

    /// Ends all streams: commands that run for clients are ended with them. Later requests for streams are refused.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.places.close();
    }

    fn stopping(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, answer::Refusal> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            answer::Refusal::new(429, format!("too many streams: this node serves {STREAMS_MAX} at once"))
        })
    }
}

/// Waits for the end.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub async fn stopped(&mut self) {
        // An error means that the kubelet itself is gone, which is an end as well.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}
