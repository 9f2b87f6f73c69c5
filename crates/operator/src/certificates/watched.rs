//! A watch on a single object, and its latest known state.

use muster_api::client::{ApiObject, Kind, WatchBatch, WatchChange, Watcher};
use muster_cluster::KubeApi;
use muster_tree::Tree;
use tokio::sync::oneshot;

pub struct WatchedObject {
    changes: Box<dyn Watcher>,
    /// `None` until the first batch of the watch; `Some(None)` when the object does not exist.
    state: Option<Option<ApiObject>>,
}

impl WatchedObject {
    /// Watches the object of this name; the namespace is empty for cluster-scoped objects.
    pub fn start(api: &KubeApi, kind: &Kind, namespace: &str, name: &str) -> WatchedObject {
        WatchedObject::of(api.watch_object(kind, namespace, name))
    }

    fn of(changes: Box<dyn Watcher>) -> WatchedObject {
        WatchedObject { changes, state: None }
    }

    /// Whether the initial list has arrived, even if it is empty.
    pub fn is_synced(&self) -> bool {
        self.state.is_some()
    }

    /// The object, if there is one.
    pub fn object(&self) -> Option<&ApiObject> {
        self.state.as_ref().and_then(Option::as_ref)
    }

    /// The object without its resource version.
    pub fn tree(&self) -> Option<&Tree> {
        self.object().map(|it| &it.tree)
    }

    /// Waits for the next batch and applies it. Cancel-safe: a dropped wait loses no change.
    pub async fn wait_for_change(&mut self) {
        let batch = next_batch(self.changes.as_mut()).await;
        self.apply_batch(batch);
    }

    /// Applies the reply to our own write before the watch delivers it, so that the next decision sees it.
    pub fn observe_write(&mut self, written: ApiObject) {
        self.apply(written);
    }

    fn apply_batch(&mut self, batch: WatchBatch) {
        match batch {
            WatchBatch::Restarted(all) => self.state = Some(all.into_iter().next()),
            WatchBatch::Changes(changes) => changes.into_iter().for_each(|change| match change {
                WatchChange::Applied(object) => self.apply(object),
                WatchChange::Deleted(object) => {
                    if !self.is_newer_than(&object) {
                        self.state = Some(None);
                    }
                }
            }),
        }
    }

    fn apply(&mut self, object: ApiObject) {
        if !self.is_newer_than(&object) {
            self.state = Some(Some(object));
        }
    }

    fn is_newer_than(&self, other: &ApiObject) -> bool {
        self.object().is_some_and(|it| it.revision > other.revision)
    }
}

/// Waits for the next batch of a watch. Cancel-safe: a dropped wait loses no change.
pub async fn next_batch(changes: &mut dyn Watcher) -> WatchBatch {
    loop {
        if let Some(batch) = changes.try_next() {
            return batch;
        }
        let (tell, told) = oneshot::channel();
        changes.notify_when_ready(Box::new(move || {
            // The wait was cancelled; the next call polls the watch first.
            let _ = tell.send(());
        }));
        let _ = told.await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    struct Told(VecDeque<WatchBatch>);

    impl Watcher for Told {
        fn try_next(&mut self) -> Option<WatchBatch> {
            self.0.pop_front()
        }

        fn notify_when_ready(&mut self, _: Box<dyn FnOnce() + Send>) {}
    }

    fn object(revision: u64) -> ApiObject {
        ApiObject { tree: Tree::from(revision.to_string().as_str()), revision }
    }

    #[tokio::test]
    async fn events_older_than_our_write_are_ignored() {
        let told = [
            WatchBatch::Restarted(Vec::new()),
            WatchBatch::Changes(vec![WatchChange::Applied(object(3))]),
            WatchBatch::Changes(vec![WatchChange::Deleted(object(4))]),
            WatchBatch::Changes(vec![WatchChange::Deleted(object(8))]),
            WatchBatch::Restarted(vec![object(9)]),
        ];
        let mut followed = WatchedObject::of(Box::new(Told(told.into())));
        assert!(!followed.is_synced());
        followed.wait_for_change().await;
        assert!(followed.is_synced() && followed.object().is_none());
        followed.observe_write(object(5));
        for (says, want) in [
            ("an older version", Some(5)),
            ("an older end", Some(5)),
            ("its end", None),
            ("another one", Some(9)),
        ] {
            followed.wait_for_change().await;
            assert_eq!(followed.object().map(|it| it.revision), want, "{says}");
        }
    }
}
