//! Following a kind: everything first, then every change in order, whatever happens to the line in between.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use muster_api::client::{
    Api, ApiError, ApiObject, ApiRequest, DeletionPropagation, Kind, RequestTarget, RequestVerb, WatchBatch,
    WatchChange, Watcher,
};
use muster_api::kinds::{CONFIG_MAPS, NAMESPACES, PODS};
use muster_store::StoreOptions;
use muster_tests::clients::note;
use muster_tree::{Text, own_bytes, tree};

use super::between::Line;
use super::makers::Maker;
use super::words::{by, call, on};
use super::{PATIENCE, perform, together};

/// How many writes overtake a watch of a server with a tiny history.
const MANY: u64 = 600;

/// A follower and what it believes.
struct Follower {
    space: &'static str,
    follow: Box<dyn Watcher>,
    /// Name and data of what is there.
    world: BTreeMap<Text, Text>,
    /// The changes since the last restart of the watch, in short.
    told: Vec<String>,
    resets: usize,
}

impl Follower {
    fn new(maker: &Maker, kind: &Kind, space: &'static str) -> Follower {
        Follower { space, follow: maker.api.watch(kind), world: BTreeMap::new(), told: Vec::new(), resets: 0 }
    }

    /// Takes in batches until `done`.
    fn until(&mut self, what: &str, done: impl Fn(&Follower) -> bool) {
        while !done(self) {
            while let Some(batch) = self.follow.try_next() {
                self.take(batch);
            }
            if done(self) {
                return;
            }
            let (tell, told) = mpsc::channel();
            self.follow.notify_when_ready(Box::new(move || {
                let _ = tell.send(());
            }));
            let woken = told.recv_timeout(PATIENCE);
            assert!(woken.is_ok(), "no news, but waiting for {what}; told {:?}", self.told);
        }
    }

    fn take(&mut self, batch: WatchBatch) {
        match batch {
            WatchBatch::Restarted(objects) => {
                self.world.clear();
                self.told.clear();
                self.resets += 1;
                objects.iter().filter(|o| is_ours(o, self.space)).for_each(|object| self.put(object));
            }
            WatchBatch::Changes(changes) => {
                for change in changes {
                    let (sign, object) = match &change {
                        WatchChange::Applied(object) => ("+", object),
                        WatchChange::Deleted(object) => ("-", object),
                    };
                    if !is_ours(object, self.space) {
                        continue;
                    }
                    self.told.push(format!("{sign}{}={}", name(object), data(object)));
                    if sign == "+" { self.put(object) } else { drop(self.world.remove(&name(object))) }
                }
            }
        }
    }

    fn put(&mut self, object: &ApiObject) {
        assert!(object.revision > 0, "an object has a revision");
        assert!(object.tree.at(&["metadata", "managedFields"]).is_none(), "owners are the server's business");
        self.world.insert(name(object), data(object));
    }

    fn has(&self, name: &str, data: &str) -> bool {
        self.world.get(name).is_some_and(|found| found == data)
    }
}

fn is_ours(object: &ApiObject, space: &str) -> bool {
    // Every namespace has a certificate, which the real one gets from a controller.
    object.tree.str_at(&["metadata", "namespace"]) == space && name(object) != "kube-root-ca.crt"
}

fn name(object: &ApiObject) -> Text {
    object.tree.text_at(&["metadata", "name"])
}

fn data(object: &ApiObject) -> Text {
    object.tree.text_at(&["data", "x"])
}

/// The embedded makers, and the real one where there is one.
fn makers(test: &str, space: &str) -> Vec<Maker> {
    let mut all = vec![Maker::local(StoreOptions::default()), Maker::ours(StoreOptions::default())];
    all.extend(Maker::real(test));
    all.iter().for_each(|maker| make_space(maker.api.as_ref(), space));
    all
}

fn make_space(api: &dyn Api, space: &str) {
    let made = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
    perform(api, call(on(&NAMESPACES, space), RequestVerb::Create(made))).unwrap();
}

/// A call about a ConfigMap of this namespace.
fn at(space: &str, name: &str, act: RequestVerb) -> ApiRequest {
    call(RequestTarget { namespace: space.into(), ..on(&CONFIG_MAPS, name) }, act)
}

fn made(x: &str) -> RequestVerb {
    RequestVerb::Create(tree!({"data": {"x": x}}))
}

fn changed(x: &str) -> RequestVerb {
    RequestVerb::MergePatch(tree!({"data": {"x": x}}))
}

fn create(api: &dyn Api, space: &str, name: &str, x: &str) -> ApiObject {
    perform(api, at(space, name, made(x))).unwrap()
}

/// Sets it, again if the reply was lost on a line that had been cut.
fn set(api: &dyn Api, space: &str, name: &str, x: &str) {
    let mut result = perform(api, at(space, name, changed(x)));
    while matches!(result, Err(ApiError::Indeterminate(_))) {
        result = perform(api, at(space, name, changed(x)));
    }
    result.unwrap();
}

fn remove(api: &dyn Api, object: &ApiObject) {
    let uid = object.tree.text_at(&["metadata", "uid"]);
    let on = at(object.tree.str_at(&["metadata", "namespace"]), &name(object), RequestVerb::Get).target;
    perform(api, ApiRequest::delete("tester".into(), on, uid, DeletionPropagation::Background)).unwrap();
}

#[test]
fn followers_hear_everything_in_order() {
    const SPACE: &str = "hears";
    let makers = makers("followers_hear_everything_in_order", SPACE);
    let told = makers.iter().map(|maker| {
        let api = maker.api.as_ref();
        let before = create(api, SPACE, "before", "0");
        let mut follower = Follower::new(maker, &CONFIG_MAPS, SPACE);
        follower.until("everything", |f| f.resets == 1);
        assert!(follower.has("before", "0") && follower.told.is_empty(), "{}: everything first", maker.name);
        let a = create(api, SPACE, "a", "1");
        set(api, SPACE, "a", "2");
        set(api, SPACE, "a", "2");
        remove(api, &before);
        remove(api, &a);
        create(api, SPACE, "a", "3");
        follower.until("the second a", |f| f.has("a", "3"));
        assert_eq!(follower.resets, 1, "{}: nothing was listed again", maker.name);
        follower.told
    });
    let told: Vec<Vec<String>> = told.collect();
    assert_eq!(told[0], ["+a=1", "+a=2", "-before=0", "-a=2", "+a=3"]);
    assert!(told.iter().all(|these| *these == told[0]), "{told:?}");
}

#[test]
fn a_line_that_is_cut_loses_nothing() {
    const SPACE: &str = "cut";
    for maker in makers("a_line_that_is_cut_loses_nothing", SPACE) {
        let Some(between) = &maker.between else { continue };
        let api = maker.api.as_ref();
        create(api, SPACE, "a", "1");
        let mut follower = Follower::new(&maker, &CONFIG_MAPS, SPACE);
        follower.until("everything", |f| f.has("a", "1"));
        for turn in ["2", "3"] {
            between.set(Line::Cut);
            between.set(Line::Whole);
            set(api, SPACE, "a", turn);
            follower.until("the change after a cut", |f| f.has("a", turn));
        }
    }
}

/// A server with a short history restarts a watch that is too old.
#[test]
fn a_follower_that_is_overtaken_begins_again() {
    const SPACE: &str = "overtaken";
    let short = StoreOptions {
        history_bytes_max: 0,
        history_age_max: Duration::ZERO,
        history_entries_min: 1,
        ..StoreOptions::default()
    };
    for maker in [Maker::local(short.clone()), Maker::ours(short)] {
        let api = maker.api.as_ref();
        make_space(api, SPACE);
        let gone = create(api, SPACE, "gone", "0");
        create(api, SPACE, "a", "0");
        let mut follower = Follower::new(&maker, &CONFIG_MAPS, SPACE);
        follower.until("everything", |f| f.has("a", "0") && f.has("gone", "0"));
        // The watch is not polled meanwhile; over the network the socket is not read.
        if let Some(between) = &maker.between {
            between.set(Line::Cut);
        }
        let engine = maker.engine.as_ref().unwrap();
        let inside = muster_apiserver::local::LocalApi::new(engine.clone());
        for turn in 1..=MANY {
            set(&inside, SPACE, "a", &turn.to_string());
        }
        remove(&inside, &gone);
        if let Some(between) = &maker.between {
            between.set(Line::Whole);
        }
        let last = MANY.to_string();
        follower.until("the last change", |f| f.has("a", &last) && !f.world.contains_key("gone"));
        assert!(follower.resets > 1, "{}: it was told to begin again", maker.name);
    }
}

/// The write is stored and its reply is lost: a retry finds its own object.
#[test]
fn a_lost_reply_is_unknown_and_may_have_happened() {
    const SPACE: &str = "lost";
    for maker in makers("a_lost_reply_is_unknown_and_may_have_happened", SPACE) {
        let Some(between) = &maker.between else { continue };
        let api = maker.api.as_ref();
        // A connection that has worked is taken again: only the answer is lost, not the question.
        create(api, SPACE, "warm", "0");
        between.set(Line::Deaf);
        let made = at(SPACE, "a", made("1"));
        let lost = perform(api, made.clone());
        between.set(Line::Whole);
        assert!(matches!(lost, Err(ApiError::Indeterminate(_))), "{}: {lost:?}", maker.name);
        let again = perform(api, made);
        assert!(matches!(again, Err(ApiError::AlreadyExists(_))), "{}: {again:?}", maker.name);
    }
}

#[test]
fn nobody_there_is_unknown_too() {
    let maker = Maker::ours(StoreOptions::default());
    maker.between.as_ref().unwrap().set(Line::Cut);
    let result = perform(maker.api.as_ref(), call(on(&CONFIG_MAPS, "a"), RequestVerb::Get));
    assert!(matches!(result, Err(ApiError::Indeterminate(_))), "{result:?}");
}

#[test]
fn what_is_not_served_has_nothing_to_tell() {
    const SPACE: &str = "absent";
    for maker in makers("what_is_not_served_has_nothing_to_tell", SPACE) {
        let kind = Kind { group: "example.com".into(), version: "v1".into(), plural: "gadgets".into() };
        let mut follower = Follower::new(&maker, &kind, SPACE);
        follower.until("that there is nothing", |f| f.resets == 1);
        assert!(follower.world.is_empty(), "{}", maker.name);
    }
}

/// Calls side by side: all of them where nothing is wrong. Where something is, the embedded plane does nothing at
/// all, and a cluster does the rest; either says what was wrong with which call.
#[test]
fn batches_are_whole_where_the_server_says_so() {
    const SPACE: &str = "batches";
    for maker in makers("batches_are_whole_where_the_server_says_so", SPACE) {
        let (api, says) = (maker.api.as_ref(), maker.name);
        assert_eq!(api.capabilities().atomic, maker.between.is_none(), "{says}");
        let make = |name: &str| at(SPACE, name, made("0"));
        let done = together(api, vec![make("a"), make("b"), make("c")]);
        assert!(done.iter().all(Result::is_ok) && done.len() == 3, "{says}: {done:?}");
        let names: Vec<Text> = done.iter().flatten().map(name).collect();
        assert_eq!(names, ["a", "b", "c"], "{says}: replies stand in the order of their calls");
        assert!(together(api, Vec::new()).is_empty(), "{says}: nothing is done at once");

        let merge = |name: &str| at(SPACE, name, changed("1"));
        let done = together(api, vec![merge("a"), make("b"), merge("c"), at(SPACE, "a", RequestVerb::Get)]);
        assert!(matches!(done[1], Err(ApiError::AlreadyExists(_))), "{says}: {done:?}");
        let is_done = !api.capabilities().atomic;
        for n in [0, 2] {
            assert_eq!(done[n].is_ok(), is_done, "{says}: call {n}: {done:?}");
            let beside = matches!(&done[n], Ok(_) | Err(ApiError::Conflict(_)));
            assert!(beside, "{says}: what was not done for another's sake may be tried again: {done:?}");
        }
        let found = perform(api, at(SPACE, "c", RequestVerb::Get)).unwrap();
        assert_eq!(data(&found), if is_done { "1" } else { "0" }, "{says}");
    }
}

/// Watched pods are cached without managedFields, which are more than half of a pod.
///
/// Shows: 976-66.
#[test]
fn pods_are_kept_without_who_wrote_them() {
    const SPACE: &str = "kept-pods";
    const MADE: usize = 100;
    for maker in makers("pods_are_kept_without_who_wrote_them", SPACE) {
        let api = maker.api.as_ref();
        for n in 0..MADE {
            let name = format!("pod-{n}");
            let on = RequestTarget { namespace: SPACE.into(), ..on(&PODS, &name) };
            let container = tree!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}});
            let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE},
                "spec": {"containers": [container]}});
            perform(api, call(on.clone(), RequestVerb::Create(pod))).unwrap();
            let label = RequestVerb::MergePatch(tree!({"metadata": {"labels": {"by": "another"}}}));
            perform(api, by("another", call(on, label))).unwrap();
        }
        let mut follow = api.watch(&PODS);
        let WatchBatch::Restarted(all) = next(follow.as_mut()) else {
            panic!("{}: all come first", maker.name)
        };
        let ours: Vec<&ApiObject> = all.iter().filter(|it| is_ours(it, SPACE)).collect();
        assert_eq!(ours.len(), MADE, "{}", maker.name);
        let writers = |it: &&&ApiObject| it.tree.at(&["metadata", "managedFields"]).is_some();
        assert_eq!(ours.iter().filter(writers).count(), 0, "{}", maker.name);
        let bytes = ours.iter().map(|it| own_bytes(&it.tree)).sum::<usize>() / MADE;
        note(&format!("port, {}: {bytes} bytes for each pod that is kept", maker.name));
    }
}

fn next(follow: &mut dyn Watcher) -> WatchBatch {
    loop {
        if let Some(batch) = follow.try_next() {
            return batch;
        }
        let (tell, told) = mpsc::channel();
        follow.notify_when_ready(Box::new(move || {
            let _ = tell.send(());
        }));
        told.recv_timeout(PATIENCE).expect("there is news");
    }
}
