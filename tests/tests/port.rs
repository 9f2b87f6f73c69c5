//! One table of calls, three makers of the port: in process, over HTTPS to our own server, over HTTPS to a real one.
//!
//! Results and refusals are the same from all three, and the two embedded stores are the same afterwards.

mod between;
mod follow;
mod made;
mod makers;
mod table;
mod words;

use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use muster_api::client::{Api, ApiError, ApiObject, ApiRequest};
use muster_store::StoreOptions;
use muster_tests::clients::note;
use muster_tests::differential::{HttpAnswer, Normaliser, compare_trees};
use muster_tree::{Tree, tree};

use self::makers::Maker;
use self::words::Seen;

/// Nothing that works takes longer.
const PATIENCE: Duration = Duration::from_secs(180);

/// Performs one call and waits for its reply.
fn perform(api: &dyn Api, call: ApiRequest) -> Result<ApiObject, ApiError> {
    let (tell, told) = mpsc::channel();
    api.send(call, Box::new(move |result| tell.send(result).unwrap()));
    told.recv_timeout(PATIENCE).expect("every call has a reply")
}

/// Performs calls together and waits for their replies.
fn together(api: &dyn Api, calls: Vec<ApiRequest>) -> Vec<Result<ApiObject, ApiError>> {
    let (tell, told) = mpsc::channel();
    api.send_transaction(calls, Box::new(move |results| tell.send(results).unwrap()));
    told.recv_timeout(PATIENCE).expect("every batch has a reply")
}

/// A result as it is compared: uids, times and revisions are names for "the same as before".
fn plain(normaliser: &mut Normaliser, result: &Result<ApiObject, ApiError>) -> Tree {
    let body = match result {
        Ok(object) if object.revision == 0 => tree!({"object": object.tree.clone()}),
        Ok(object) => {
            tree!({"object": object.tree.clone(), "resourceVersion": object.revision.to_string()})
        }
        Err(refusal) => {
            let kind = format!("{refusal:?}");
            let kind = kind.split(['(', ' ']).next().unwrap_or_default();
            tree!({"refusal": kind, "message": without_revision(&refusal.message())})
        }
    };
    normaliser.answer(&HttpAnswer { code: 0, warnings: Vec::new(), media: String::new(), body }).body
}

/// The revision that a precondition named differs from store to store.
fn without_revision(words: &str) -> String {
    const BEFORE: &str = "ResourceVersion in the precondition (";
    match words.split_once(BEFORE) {
        Some((head, tail)) => {
            format!("{head}{BEFORE}<n>{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => words.to_owned(),
    }
}

/// Plays the table; one plain result for each row.
fn play(maker: &Maker) -> Vec<Tree> {
    let mut seen = Seen::default();
    let mut normaliser = Normaliser::new("no-such-namespace");
    let rows = table::rows().into_iter();
    let results = rows.map(|(_, make)| {
        let call = make(&seen);
        let result = perform(maker.api.as_ref(), call.clone());
        if let Ok(object) = &result {
            seen.take(&call.target, object);
        }
        plain(&mut normaliser, &result)
    });
    results.collect()
}

/// What stays different from the real server, and why: (row, path).
const KNOWN: [(&str, &str); 4] = [
    // The real message contains etcd's error code and key.
    ("a binding of another incarnation", ".message"),
    // The real server taints new nodes until a controller initializes them; ours does not.
    ("a node", ".object.spec.taints"),
    ("a condition of the node", ".object.spec.taints"),
    ("another condition beside it", ".object.spec.taints"),
];

/// What the second has that the first has not, row by row.
fn differences(first: (&Maker, &[Tree]), second: (&Maker, &[Tree])) -> String {
    let mut report = String::new();
    for (n, (says, _)) in table::rows().iter().enumerate() {
        let known = |path: &str| second.0.engine.is_none() && KNOWN.contains(&(*says, path));
        let found = compare_trees(&first.1[n], &second.1[n]).into_iter();
        for difference in found.filter(|difference| !known(&difference.path)) {
            writeln!(report, "{says}: {} / {}: {difference}", first.0.name, second.0.name).unwrap();
        }
    }
    report
}

#[test]
fn the_same_calls_mean_the_same_everywhere() {
    let (local, ours) = (Maker::local(StoreOptions::default()), Maker::ours(StoreOptions::default()));
    let (here, there) = (play(&local), play(&ours));
    let mut report = differences((&local, &here), (&ours, &there));
    let written = [
        "configmaps",
        "namespaces",
        "jobs.batch",
        "pods",
        "nodes",
        "deployments.apps",
        "leases.coordination.k8s.io",
        "jobsets.jobset.x-k8s.io",
        "services",
        "persistentvolumeclaims",
        "persistentvolumes",
        "resourceclaims.resource.k8s.io",
        "events",
    ];
    let stored = [&local, &ours].map(|maker| {
        let body = maker.stored(&written);
        let answer = HttpAnswer { code: 0, warnings: Vec::new(), media: String::new(), body };
        Normaliser::new("no-such-namespace").answer(&answer).body
    });
    for difference in compare_trees(&stored[0], &stored[1]) {
        writeln!(report, "stores: {difference}").unwrap();
    }
    let real = Maker::real("the_same_calls_mean_the_same_everywhere");
    if let Some(real) = &real {
        let judged = play(real);
        report += &differences((&local, &here), (real, &judged));
    }
    assert!(report.is_empty(), "{report}");
    let makers = 2 + usize::from(real.is_some());
    note(&format!("port: {} calls over {makers} makers, all answered alike", here.len()));
}

#[test]
fn the_same_kinds_are_there_in_process_and_over_https() {
    let makers = [Maker::local(StoreOptions::default()), Maker::ours(StoreOptions::default())];
    let [here, there] = makers.map(|maker| {
        let mut kinds = maker.api.capabilities().kinds;
        kinds.sort();
        kinds
    });
    assert_eq!(here, there);
}
