//! The shutdown signal of connections and streams.

use tokio::sync::watch;

#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

/// Triggers the shutdown; dropping it does too.
#[derive(Debug)]
pub struct StopHandle(watch::Sender<bool>);

/// A connected handle and signal.
#[must_use]
pub fn pair() -> (StopHandle, StopSignal) {
    let (stopper, stop) = watch::channel(false);
    (StopHandle(stopper), StopSignal(stop))
}

impl StopSignal {
    /// Returns when the server stops.
    pub async fn stopped(&mut self) {
        // An error means that the handle was dropped, which is a shutdown as well.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}

impl StopHandle {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
