//! Somebody who sees every Job that is ever made: a watch without gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use muster_tree::Tree;

use crate::differential::{Server, Step};

const JOBS: &str = "/apis/batch/v1/jobs";
/// How long one watch lasts.
const WATCH_SECS: u32 = 3;

/// The UIDs seen under a name, by namespace, name and attempt.
pub type Uids = BTreeMap<String, BTreeSet<String>>;

/// The witness.
pub struct Witness {
    enough: Arc<AtomicBool>,
    sees: JoinHandle<Result<Uids, String>>,
}

impl Witness {
    /// Begins to look. Jobs that are there already are seen as well.
    pub fn start(server: Server) -> Result<Witness, String> {
        let list = server.get(JOBS)?.body;
        let mut uids = Uids::new();
        list.items_at(&["items"]).iter().for_each(|job| note(&mut uids, job));
        let from = list.str_at(&["metadata", "resourceVersion"]).to_owned();
        let enough = Arc::new(AtomicBool::new(false));
        let told = enough.clone();
        let sees = std::thread::spawn(move || watch(&server, uids, from, &told));
        Ok(Witness { enough, sees })
    }

    /// What it has seen, up to now.
    pub fn tells(self) -> Result<Uids, String> {
        self.enough.store(true, Ordering::Relaxed);
        self.sees.join().map_err(|_| "the witness panicked".to_owned())?
    }
}

fn watch(server: &Server, mut uids: Uids, mut from: String, enough: &AtomicBool) -> Result<Uids, String> {
    loop {
        // Read before the watch: what came before the word is still seen.
        let last = enough.load(Ordering::Relaxed);
        let path = format!("{JOBS}?watch=true&resourceVersion={from}&timeoutSeconds={WATCH_SECS}");
        let events = server.send("WATCH", &path, &Step::default(), Vec::new())?;
        for event in events.body.items() {
            let Some(job) = event.get("object").filter(|it| it.str_at(&["kind"]) == "Job") else {
                return Err(format!("the witness missed something: {event}"));
            };
            note(&mut uids, job);
            job.str_at(&["metadata", "resourceVersion"]).clone_into(&mut from);
        }
        if last {
            return Ok(uids);
        }
    }
}

fn note(uids: &mut Uids, job: &Tree) {
    let meta = |key: &str| job.str_at(&["metadata", key]).to_owned();
    let attempt = job.str_at(&["metadata", "labels", "jobset.sigs.k8s.io/restart-attempt"]);
    let key = format!("{}/{}@{attempt}", meta("namespace"), meta("name"));
    uids.entry(key).or_default().insert(meta("uid"));
}
