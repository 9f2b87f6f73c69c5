//! Replies applied to the cache, and bounds on requests in flight.

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
    WatchBatch, WatchChange,
};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::kinds::{CONFIG_MAPS, JOBSETS};
use muster_api::time::Time;
use muster_tree::{Text, tree};

use super::{ControlLoop, RequestId, RuntimeInput, RuntimeOptions, RuntimeOutput};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, Precondition, ReconcileRequest, Reconciled, Step};

const NOW: Time = Time(1_767_225_600_000_000);

/// Reads the JobSet that has the name of a ConfigMap, whatever its UID.
struct ReadsJobSet;

impl Controller for ReadsJobSet {
    fn name(&self) -> &'static str {
        "reads-jobset"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone(), JOBSETS.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let is_config_map = seen.key.kind == CONFIG_MAPS;
        is_config_map.then(|| seen.key.clone().into()).into_iter().collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, _caches: &Caches, _now: Time) -> Reconciled {
        let on = RequestTarget {
            kind: JOBSETS.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            subresource: Subresource::Main,
        };
        let call = ApiRequest {
            field_manager: Text::from("reads-jobset"),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Get,
        };
        Reconciled::with_steps(vec![Step::Precondition(call, Precondition::NotFound)])
    }
}

fn object(uid: &str, revision: u64) -> ApiObject {
    ApiObject { tree: tree!({"metadata": {"namespace": "ns", "name": "a", "uid": uid}}), revision }
}

fn put(it: &mut ControlLoop, kind: &Kind, object: ApiObject) -> Vec<RequestId> {
    let sent = it.handle(
        RuntimeInput::Watched(kind.clone(), WatchBatch::Changes(vec![WatchChange::Applied(object)])),
        NOW,
    );
    let ids = sent.into_iter().filter_map(|output| match output {
        RuntimeOutput::Send(id, _) => Some(id),
        _ => None,
    });
    ids.collect()
}

fn begin() -> ControlLoop {
    let all = [CONFIG_MAPS.clone(), JOBSETS.clone()];
    let mut it = ControlLoop::new(vec![Box::new(ReadsJobSet)], &all, RuntimeOptions::default());
    for kind in all {
        let _ = it.handle(RuntimeInput::Watched(kind, WatchBatch::Restarted(Vec::new())), NOW);
    }
    it
}

fn is_cached(it: &ControlLoop) -> bool {
    it.caches().get(&JOBSETS, &"ns".into(), &"a".into()).is_some()
}

fn not_found() -> Vec<Result<ApiObject, ApiError>> {
    vec![Err(ApiError::NotFound("a".to_owned()))]
}

#[test]
fn an_object_that_is_not_found_is_removed_from_the_cache() {
    let mut it = begin();
    put(&mut it, &JOBSETS, object("old", 1));
    let sent = put(&mut it, &CONFIG_MAPS, object("c", 2));
    let _ = it.handle(RuntimeInput::Replied(sent[0], not_found()), NOW);
    assert!(!is_cached(&it));
}

#[test]
fn an_object_created_during_a_read_of_its_name_stays_in_the_cache() {
    let mut it = begin();
    let sent = put(&mut it, &CONFIG_MAPS, object("c", 2));
    put(&mut it, &JOBSETS, object("new", 3));
    let _ = it.handle(RuntimeInput::Replied(sent[0], not_found()), NOW);
    assert!(is_cached(&it), "the watch does not repeat its creation");
}

struct WritesConfigMap(RequestVerb);

impl Controller for WritesConfigMap {
    fn name(&self) -> &'static str {
        "writes-configmap"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        vec![seen.key.clone().into()]
    }

    fn reconcile(&mut self, key: &ObjectKey, _caches: &Caches, _now: Time) -> Reconciled {
        let on = key.target(Subresource::Status);
        let call = ApiRequest {
            field_manager: Text::from("writes-configmap"),
            target: on,
            preconditions: Preconditions::default(),
            verb: self.0.clone(),
        };
        Reconciled::with_steps(vec![Step::Request(call)])
    }
}

#[test]
fn writes_rejected_for_their_content_are_counted() {
    let (merge, create) = (RequestVerb::MergePatch(tree!({"status": {}})), RequestVerb::Create(tree!({})));
    let (invalid, forbidden) =
        (ApiError::Invalid("too many".to_owned()), ApiError::Forbidden("no".to_owned()));
    for (act, why, count) in [
        (merge.clone(), invalid.clone(), 1),
        (create.clone(), invalid, 1),
        (merge.clone(), forbidden.clone(), 1),
        (create, forbidden, 0),
        (merge, ApiError::Conflict("later".to_owned()), 0),
    ] {
        let all = [CONFIG_MAPS.clone()];
        let name = format!("{act:?} {why}");
        let mut it = ControlLoop::new(vec![Box::new(WritesConfigMap(act))], &all, RuntimeOptions::default());
        let _ = it.handle(RuntimeInput::Watched(CONFIG_MAPS.clone(), WatchBatch::Restarted(Vec::new())), NOW);
        let sent = put(&mut it, &CONFIG_MAPS, object("c", 2));
        let _ = it.handle(RuntimeInput::Replied(sent[0], vec![Err(why)]), NOW);
        let metrics = it.metrics();
        assert_eq!(metrics.rejected.values().sum::<u64>(), count, "{name}");
        assert_eq!(metrics.request_errors, 1, "{name}");
        assert!(metrics.rejected.keys().all(|(_, plural)| plural == "configmaps"), "{name}");
    }
}

struct RecordsEvent;

impl Controller for RecordsEvent {
    fn name(&self) -> &'static str {
        "records-event"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        vec![seen.key.clone().into()]
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let Some(object) = caches.find(key) else { return Reconciled::done() };
        Reconciled::with_steps(vec![Step::Event(Event {
            reporting_controller: Text::from("records-event"),
            regarding: ObjectReference::of(&CONFIG_MAPS, "ConfigMap", &object.tree),
            event_type: EventType::Normal,
            reason: Text::from("Seen"),
            message: Text::new(),
            action: Text::new(),
        })])
    }
}

#[test]
fn events_in_flight_are_bounded_and_none_is_lost() {
    let options = RuntimeOptions { events_in_flight_max: 2, ..RuntimeOptions::default() };
    let mut it = ControlLoop::new(vec![Box::new(RecordsEvent)], &[], options);
    let named = |n: u64| ApiObject {
        tree: tree!({"metadata": {"namespace": "ns", "name": format!("c{n}"), "uid": format!("u{n}")}}),
        revision: n,
    };
    let all = (1..=5).map(named).collect();
    let mut outputs = it.handle(RuntimeInput::Watched(CONFIG_MAPS.clone(), WatchBatch::Restarted(all)), NOW);
    let mut batches = Vec::new();
    loop {
        let sent = outputs.iter().filter_map(|output| match output {
            RuntimeOutput::Send(id, _) => Some(*id),
            _ => None,
        });
        let sent: Vec<RequestId> = sent.collect();
        if sent.is_empty() {
            break;
        }
        batches.push(sent.len());
        for id in sent {
            it.observe(RuntimeInput::Replied(id, vec![Ok(object("event", 9))]), NOW);
        }
        outputs = it.reconcile_ready(NOW);
    }
    assert_eq!(batches, [2, 2, 1]);
}
