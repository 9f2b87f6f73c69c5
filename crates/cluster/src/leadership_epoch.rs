//! A leadership epoch: requests of a leader are canceled when it ends.

use tokio::sync::watch::{self, Receiver, Sender};

/// The time between acquiring and losing leadership; it ends when this is dropped.
pub struct LeadershipEpoch {
    _ends_when_dropped: Sender<()>,
}

impl LeadershipEpoch {
    /// Ends the epoch: requests in flight are canceled, queued ones are never sent.
    pub fn end(self) {}
}

/// Observes the end of an epoch.
#[derive(Clone)]
pub(crate) struct EpochEnd(Option<Receiver<()>>);

impl EpochEnd {
    /// For requests outside of an epoch.
    pub fn never() -> EpochEnd {
        EpochEnd(None)
    }

    pub async fn wait(&self) {
        match self.0.clone() {
            // Nothing is ever sent: the channel closes when the epoch is dropped.
            Some(mut epoch) => while epoch.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

pub(crate) fn start_epoch() -> (LeadershipEpoch, EpochEnd) {
    let (epoch, ended) = watch::channel(());
    (LeadershipEpoch { _ends_when_dropped: epoch }, EpochEnd(Some(ended)))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn an_epoch_ends_once() {
        assert!(EpochEnd::never().wait().now_or_never().is_none());
        let (epoch, ended) = start_epoch();
        assert!(ended.wait().now_or_never().is_none());
        epoch.end();
        assert!(ended.wait().now_or_never().is_some());
        assert!(ended.clone().wait().now_or_never().is_some());
    }
}
