//! A time in charge, after which nothing more is sent.

use tokio::sync::watch::{self, Receiver, Sender};

/// Somebody's time in charge; it is over when this is dropped.
pub struct Term {
    _ends_when_dropped: Sender<()>,
}

impl Term {
    /// Ends it: calls that have no answer yet are broken off, those that wait are never sent.
    pub fn end(self) {}
}

/// Knows when a term is over.
#[derive(Clone)]
pub(crate) struct Ended(Option<Receiver<()>>);

impl Ended {
    /// Of what is for no term.
    pub fn never() -> Ended {
        Ended(None)
    }

    /// Waits for the end.
    pub async fn wait(&self) {
        match self.0.clone() {
            // Nothing is ever sent: it ends when the term is dropped.
            Some(mut term) => while term.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

/// Begins a term.
pub(crate) fn begin() -> (Term, Ended) {
    let (term, ended) = watch::channel(());
    (Term { _ends_when_dropped: term }, Ended(Some(ended)))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_term_ends_once_and_for_all() {
        assert!(Ended::never().wait().now_or_never().is_none());
        let (term, ended) = begin();
        assert!(ended.wait().now_or_never().is_none());
        term.end();
        assert!(ended.wait().now_or_never().is_some());
        assert!(ended.clone().wait().now_or_never().is_some());
    }
}
