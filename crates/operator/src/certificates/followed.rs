//! One object that is followed: what it is now, as far as is known.

use muster_api::port::{Batch, Change, Follow, Kind, Object};
use muster_cluster::KubeApi;
use muster_tree::Tree;
use tokio::sync::oneshot;

/// The object.
pub struct Followed {
    changes: Box<dyn Follow>,
    /// `None` until something was told.
    now: Option<Option<Object>>,
}

impl Followed {
    /// Follows the one of this name; the namespace is empty where objects have none.
    pub fn start(api: &KubeApi, kind: &Kind, namespace: &str, name: &str) -> Followed {
        Followed::of(api.follow_one(kind, namespace, name))
    }

    fn of(changes: Box<dyn Follow>) -> Followed {
        Followed { changes, now: None }
    }

    /// Whether anything is known, that there is none included.
    pub fn is_known(&self) -> bool {
        self.now.is_some()
    }

    /// The object, if there is one.
    pub fn object(&self) -> Option<&Object> {
        self.now.as_ref().and_then(Option::as_ref)
    }

    /// The same, without its revision.
    pub fn tree(&self) -> Option<&Tree> {
        self.object().map(|it| &it.tree)
    }

    /// Waits until something is told. Whoever stops waiting misses nothing.
    pub async fn hear(&mut self) {
        let batch = told(self.changes.as_mut()).await;
        self.take(batch);
    }

    /// The answer to a write of ours, which the watch may tell later.
    pub fn note(&mut self, written: Object) {
        self.put(written);
    }

    fn take(&mut self, batch: Batch) {
        match batch {
            Batch::Reset(all) => self.now = Some(all.into_iter().next()),
            Batch::Changes(changes) => changes.into_iter().for_each(|change| match change {
                Change::Put(object) => self.put(object),
                Change::Gone(object) => {
                    if !self.is_newer_than(&object) {
                        self.now = Some(None);
                    }
                }
            }),
        }
    }

    fn put(&mut self, object: Object) {
        if !self.is_newer_than(&object) {
            self.now = Some(Some(object));
        }
    }

    fn is_newer_than(&self, other: &Object) -> bool {
        self.object().is_some_and(|it| it.revision > other.revision)
    }
}

/// Waits until something is told of what is followed. Whoever stops waiting misses nothing.
pub async fn told(changes: &mut dyn Follow) -> Batch {
    loop {
        if let Some(batch) = changes.pull() {
            return batch;
        }
        let (tell, told) = oneshot::channel();
        changes.wake_when_ready(Box::new(move || {
            // Nobody waits any more: the next one looks first.
            let _ = tell.send(());
        }));
        let _ = told.await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Told(VecDeque<Batch>);

    impl Follow for Told {
        fn pull(&mut self) -> Option<Batch> {
            self.0.pop_front()
        }

        fn wake_when_ready(&mut self, _: Box<dyn FnOnce() + Send>) {}
    }

    fn object(revision: u64) -> Object {
        Object { tree: Tree::from(revision.to_string().as_str()), revision }
    }

    #[tokio::test]
    async fn what_is_older_than_what_we_wrote_changes_nothing() {
        let told = [
            Batch::Reset(Vec::new()),
            Batch::Changes(vec![Change::Put(object(3))]),
            Batch::Changes(vec![Change::Gone(object(4))]),
            Batch::Changes(vec![Change::Gone(object(8))]),
            Batch::Reset(vec![object(9)]),
        ];
        let mut followed = Followed::of(Box::new(Told(told.into())));
        assert!(!followed.is_known());
        followed.hear().await;
        assert!(followed.is_known() && followed.object().is_none());
        followed.note(object(5));
        for (says, want) in [
            ("an older version", Some(5)),
            ("an older end", Some(5)),
            ("its end", None),
            ("another one", Some(9)),
        ] {
            followed.hear().await;
            assert_eq!(followed.object().map(|it| it.revision), want, "{says}");
        }
    }
}
