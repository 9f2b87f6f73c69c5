//! `kill -9` amid two hundred writers: every acknowledged write is there afterwards, revisions go on upward, watches
//! resume.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::RestartableServer;
use muster_tree::{Tree, tree};

const WRITERS: usize = 200;
const NAMESPACE: &str = "/api/v1/namespaces/default/configmaps";
/// How long the writers write before each kill; longer and shorter in turn, so that kills fall into all phases.
const LIVES_MILLIS: [u64; 4] = [700, 1_100, 900, 1_300];

/// The last write that was acknowledged to a writer: count and revision of its object.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    count: i64,
    revision: u64,
}

#[test]
fn kill_nine_loses_no_acknowledged_write() {
    let kills: usize = std::env::var("MUSTER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let mut server = RestartableServer::start().expect("muster up is ready");
    let mut told: BTreeMap<usize, Told> = BTreeMap::new();
    let mut newest = 0;
    for round in 0..kills {
        let before = revision(&server.server().unwrap());
        assert!(before >= newest, "revisions went back from {newest} to {before}");
        write_until_killed(&mut server, &mut told, LIVES_MILLIS[round % LIVES_MILLIS.len()]);
        newest = told.values().map(|told| told.revision).max().unwrap_or(0).max(before);
        server.restart().expect("the server starts again on its data");
        check(&server.server().unwrap(), &told, newest);
        eprintln!("kill {} of {kills}: {} objects, revision {newest}", round + 1, told.len());
    }
    assert!(told.values().any(|told| told.count > 0), "nobody was ever told anything");
}

/// Lets all writers write, kills the server meanwhile, and records what was acknowledged to each.
fn write_until_killed(server: &mut RestartableServer, told: &mut BTreeMap<usize, Told>, life_millis: u64) {
    let stop = AtomicBool::new(false);
    let client = server.server().unwrap();
    let all = Mutex::new(std::mem::take(told));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (client, stop, all) = (&client, &stop, &all);
            scope.spawn(move || write(client, writer, stop, all));
        }
        std::thread::sleep(Duration::from_millis(life_millis));
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
    *told = all.into_inner().unwrap();
}

/// Increments a counter in one object; a write whose reply was lost may or may not be stored.
fn write(client: &ApiClient, writer: usize, stop: &AtomicBool, all: &Mutex<BTreeMap<usize, Told>>) {
    let name = format!("writer-{writer}");
    let mut count = all.lock().unwrap().get(&writer).map_or(0, |told| told.count);
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let data = tree!({"data": {"count": count.to_string()}});
        let body = data.with(&["metadata", "name"], name.as_str());
        let body = body.with(&["apiVersion"], "v1").with(&["kind"], "ConfigMap");
        let step = RequestStep { kind: "apply".into(), ..RequestStep::default() };
        let path = format!("{NAMESPACE}/{name}?fieldManager=writer&force=true");
        match client.send("PATCH", &path, &step, body.to_json_bytes()) {
            Ok(answer) if answer.code < 300 => {
                let revision = revision_of(&answer.body);
                all.lock().unwrap().insert(writer, Told { count, revision });
            }
            // Too many at once: the same write again.
            Ok(answer) if answer.code == 429 => count -= 1,
            Ok(answer) => panic!("writer {writer}: {}", answer.body),
            Err(_) => return,
        }
    }
}

fn check(client: &ApiClient, told: &BTreeMap<usize, Told>, newest: u64) {
    let list = client.get(NAMESPACE).unwrap().body;
    let at = revision_of(&list);
    assert!(at >= newest, "the store is at {at}, but {newest} was acknowledged");
    for (writer, told) in told {
        let name = format!("writer-{writer}");
        let found = list.items_at(&["items"]).iter().find(|item| item.str_at(&["metadata", "name"]) == name);
        let found = found.unwrap_or_else(|| panic!("{name} is gone, though {told:?} was acknowledged"));
        let count: i64 = found.str_at(&["data", "count"]).parse().unwrap();
        // One more may have been written without the reply coming through.
        assert!((told.count..=told.count + 1).contains(&count), "{name} has {count}, told {told:?}");
        assert!(revision_of(found) >= told.revision, "{name} went back behind {told:?}");
    }
    resume(client, at);
}

/// A watch from before a write shows that write, also across the restart.
fn resume(client: &ApiClient, from: u64) {
    let body = tree!({"metadata": {"name": "after", "labels": {"at": from.to_string()}}});
    let body = body.with(&["apiVersion"], "v1").with(&["kind"], "ConfigMap");
    let step = RequestStep { kind: "apply".into(), ..RequestStep::default() };
    let path = format!("{NAMESPACE}/after?fieldManager=check&force=true");
    let made = client.send("PATCH", &path, &step, body.to_json_bytes()).unwrap();
    assert!(made.code < 300, "{}", made.body);
    assert!(revision_of(&made.body) > from, "a new write takes a new revision");
    let watch = format!("{NAMESPACE}?watch=true&resourceVersion={from}&timeoutSeconds=1");
    let events = client.send("WATCH", &watch, &RequestStep::default(), Vec::new()).unwrap().body;
    let last = events.items().last().unwrap_or_else(|| panic!("no event after {from}"));
    assert_eq!(last.str_at(&["object", "metadata", "name"]), "after", "{last}");
}

fn revision(client: &ApiClient) -> u64 {
    revision_of(&client.get(NAMESPACE).unwrap().body)
}

fn revision_of(tree: &Tree) -> u64 {
    tree.str_at(&["metadata", "resourceVersion"]).parse().expect("a revision is a number")
}
