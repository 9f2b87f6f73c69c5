//! The one signal that tells every connection and stream that the server stops.

use tokio::sync::watch;

/// Waits for the end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Brings the end; dropping it does too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Both ends.
#[must_use]
pub fn pair() -> (Stopper, Stop) {
    let (stopper, stop) = watch::channel(false);
    (Stopper(stopper), Stop(stop))
}

impl Stop {
    /// Returns when the server stops.
    pub async fn stopped(&mut self) {
        // An error means that the stopper is gone, which is an end as well.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}

impl Stopper {
    /// From now on the server stops.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
