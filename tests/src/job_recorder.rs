//! Records every Job that is ever created, by a watch without gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use muster_tree::Tree;

use crate::differential::{ApiClient, RequestStep};

const JOBS: &str = "/apis/batch/v1/jobs";
/// Timeout of one watch.
const WATCH_SECS: u32 = 3;

/// Observed UIDs by namespace, name and restart attempt.
pub type Uids = BTreeMap<String, BTreeSet<String>>;

pub struct JobRecorder {
    stop: Arc<AtomicBool>,
    watcher: JoinHandle<Result<Uids, String>>,
}

impl JobRecorder {
    /// Starts recording. Existing Jobs are included.
    pub fn start(server: ApiClient) -> Result<JobRecorder, String> {
        let list = server.get(JOBS)?.body;
        let mut uids = Uids::new();
        list.items_at(&["items"]).iter().for_each(|job| record(&mut uids, job));
        let from = list.str_at(&["metadata", "resourceVersion"]).to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let should_stop = stop.clone();
        let watcher = std::thread::spawn(move || watch(&server, uids, from, &should_stop));
        Ok(JobRecorder { stop, watcher })
    }

    /// Stops recording and returns the UIDs observed so far.
    pub fn finish(self) -> Result<Uids, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.watcher.join().map_err(|_| "the recorder panicked".to_owned())?
    }
}

fn watch(server: &ApiClient, mut uids: Uids, mut from: String, stop: &AtomicBool) -> Result<Uids, String> {
    loop {
        // Read before the watch, so that events before the stop request are still recorded.
        let last = stop.load(Ordering::Relaxed);
        let path = format!("{JOBS}?watch=true&resourceVersion={from}&timeoutSeconds={WATCH_SECS}");
        let events = server.send("WATCH", &path, &RequestStep::default(), Vec::new())?;
        for event in events.body.items() {
            let Some(job) = event.get("object").filter(|it| it.str_at(&["kind"]) == "Job") else {
                return Err(format!("the watch has a gap: {event}"));
            };
            record(&mut uids, job);
            job.str_at(&["metadata", "resourceVersion"]).clone_into(&mut from);
        }
        if last {
            return Ok(uids);
        }
    }
}

fn record(uids: &mut Uids, job: &Tree) {
    let meta = |key: &str| job.str_at(&["metadata", key]).to_owned();
    let attempt = job.str_at(&["metadata", "labels", "jobset.sigs.k8s.io/restart-attempt"]);
    let key = format!("{}/{}@{attempt}", meta("namespace"), meta("name"));
    uids.entry(key).or_default().insert(meta("uid"));
}
