//! Limits on concurrent requests (kube-apiserver: max requests in flight).
//!
//! A request beyond a limit is not queued: it gets 429 with `Retry-After`, which every Kubernetes client honors.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Status;

/// Default limits; kube-apiserver's defaults are 200 mutating and 400 other requests in flight.
pub const WRITES_MAX: usize = 200;
pub const READS_MAX: usize = 400;
pub const WATCHES_MAX: usize = 2_000;
pub const STREAMS_MAX: usize = 500;
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum size of request headers in bytes.
pub const HEADER_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of open connections.
pub const CONNECTIONS_MAX: usize = 4_000;
/// Timeout of a TLS handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The configurable limits of one server.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// Maximum number of concurrent mutating requests.
    pub writes: usize,
    /// Maximum number of concurrent get and list requests.
    pub reads: usize,
    /// Maximum number of open watches.
    pub watches: usize,
    /// Maximum number of open log, exec, attach and port-forward streams.
    pub streams: usize,
    /// Timeout of a request that is neither watch nor stream.
    pub deadline: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            writes: WRITES_MAX,
            reads: READS_MAX,
            watches: WATCHES_MAX,
            streams: STREAMS_MAX,
            deadline: DEADLINE,
        }
    }
}

/// The limit that a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlightClass {
    Write,
    Read,
    Watch,
    /// Log, exec, attach and port-forward.
    Stream,
}

/// Counts requests in flight.
pub struct InFlightLimits {
    writes: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl InFlightLimits {
    #[must_use]
    pub fn new(bounds: &RequestLimits) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            writes: places(bounds.writes),
            reads: places(bounds.reads),
            watches: places(bounds.watches),
            streams: places(bounds.streams),
        }
    }

    /// Takes a permit; dropping it frees the slot.
    ///
    /// # Errors
    /// 429 when the limit is reached.
    pub fn acquire(&self, load: InFlightClass) -> Result<OwnedSemaphorePermit, Status> {
        let places = match load {
            InFlightClass::Write => &self.writes,
            InFlightClass::Read => &self.reads,
            InFlightClass::Watch => &self.watches,
            InFlightClass::Stream => &self.streams,
        };
        places.clone().try_acquire_owned().map_err(|_| too_many())
    }
}

fn too_many() -> Status {
    let message = "too many requests, please try again later";
    let mut status = Status::new(429, "TooManyRequests", message);
    status.details.retry_after_seconds = Some(1);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_are_rejected_not_queued() {
        let limits = InFlightLimits::new(&RequestLimits { writes: 1, ..RequestLimits::default() });
        let first = limits.acquire(InFlightClass::Write).unwrap();
        let refusal = limits.acquire(InFlightClass::Write).unwrap_err();
        assert_eq!((refusal.code, refusal.details.retry_after_seconds), (429, Some(1)));
        assert!(limits.acquire(InFlightClass::Read).is_ok(), "reads have places of their own");
        drop(first);
        assert!(limits.acquire(InFlightClass::Write).is_ok());
    }
}
