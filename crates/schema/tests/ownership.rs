//! Replays writes recorded from a real API server and compares `managedFields`.
//!
//! `data/ownership.json` holds histories of objects: random applies, updates and patches by several managers, each
//! with the object that the server answered, or its conflicts. Since only ownership is looked at here, an update
//! takes the answered object as the new one. Another file can be named in `OWNERSHIP_CASES`.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use common::same_values;
use muster_schema::apply::{self, Writer};
use muster_schema::fields;
use muster_schema::node::SchemaRef;
use muster_schema::object::{Managed, StoredObject};
use muster_schema::{crd, structure, table};

use muster_tree::{Tree, tree};

/// One recorded write.
struct Case<'a> {
    /// What it is part of: the history of one object.
    sequence: &'a Tree,
    /// The request and the answer.
    step: &'a Tree,
    /// The schema of the kind.
    schema: SchemaRef,
    /// The object after the step before.
    live: Option<StoredObject>,
}

impl Case<'_> {
    fn str(&self, name: &str) -> &str {
        self.step.str_at(&[name])
    }

    fn object(&self, name: &str) -> Option<StoredObject> {
        self.step.get(name).filter(|o| o.is_map()).map(StoredObject::of_whole)
    }

    /// The object before; recorded when a controller wrote in between.
    fn before(&self) -> Option<StoredObject> {
        self.object("before").or_else(|| self.live.clone())
    }

    /// What the endpoint cannot own.
    fn ignored(&self) -> Tree {
        match (self.str("subresource"), self.sequence.str_at(&["kind"])) {
            ("status", "Thing") => {
                tree!({"f:apiVersion": {}, "f:kind": {}, "f:metadata": {}, "f:spec": {}})
            }
            ("status", "Pod") => {
                tree!({"f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}, "f:spec": {}})
            }
            ("status", _) => tree!({"f:spec": {}}),
            (_, "ConfigMap" | "PodTemplate") => tree!({}),
            _ => tree!({"f:status": {}}),
        }
    }

    fn writer(&self) -> Writer {
        let times = self.step.items_at(&["after", "metadata", "managedFields"]).iter();
        let time = times.map(|entry| entry.text_at(&["time"])).max().unwrap_or_default();
        Writer {
            manager: self.step.text_at(&["manager"]),
            api_version: self.sequence.text_at(&["apiVersion"]),
            subresource: self.step.text_at(&["subresource"]),
            time,
        }
    }

    /// What went wrong, if anything.
    fn replay(&self) -> Result<(), String> {
        match self.str("op") {
            "apply" => self.replay_apply(),
            _ => self.replay_update(),
        }
    }

    fn replay_apply(&self) -> Result<(), String> {
        let live = self.before().unwrap_or_else(|| StoredObject::new(Tree::empty_map()));
        let body = self.step.get("body").ok_or("no body")?;
        let force = self.step.bool_at(&["force"]) == Some(true);
        let view = self.schema.view();
        apply::check(view, body)?;
        let result = apply::apply(view, &live, body, &self.writer(), force, &self.ignored());
        match (result, self.object("after")) {
            (Ok(got), Some(want)) => {
                same_owners(&got.managed, &want.managed)?;
                same_values(&live.tree, &got.tree, &want.tree)
            }
            (Err(conflicts), None) => {
                let got: BTreeSet<_> = conflicts.iter().map(|c| (c.message(), c.path.clone())).collect();
                let causes = self.step.items_at(&["conflict", "causes"]).iter();
                let text = |cause: &Tree, i: usize| cause.items()[i].as_str().unwrap_or_default().to_owned();
                let want: BTreeSet<_> = causes.map(|cause| (text(cause, 0), text(cause, 1))).collect();
                let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
                let message = apply::message(&conflicts);
                if got != want || lines(&message) != lines(self.step.str_at(&["conflict", "message"])) {
                    return Err(format!("conflicts {got:?}, want {want:?}: {message}"));
                }
                Ok(())
            }
            (Ok(_), None) => Err(format!("no conflict, want {:?}", self.step.get("conflict"))),
            (Err(conflicts), Some(_)) => Err(apply::message(&conflicts)),
        }
    }

    fn replay_update(&self) -> Result<(), String> {
        let want = self.object("after").ok_or("nothing recorded")?;
        let live = self.before();
        // A new object is tracked before admission and the kind's own rules add to it.
        let view = self.schema.view();
        let new = match self.str("op") {
            "create" => structure::default(view, self.step.get("body").ok_or("no body")?),
            _ => want.tree.clone(),
        };
        let got = apply::update(view, live.as_ref(), &new, &self.writer(), &self.ignored());
        same_owners(&got, &want.managed)
    }
}

fn same_owners(got: &Arc<[Managed]>, want: &Arc<[Managed]>) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let shown =
        |m: &Managed| format!("{} {} {} {} {}", m.manager, m.applied, m.subresource, m.api_version, m.time);
    let mut text = String::new();
    for entry in got.iter() {
        match want.iter().find(|w| shown(w) == shown(entry)) {
            None => text += &format!("\n  extra {}: {}", shown(entry), entry.fields),
            Some(want) if want.fields == entry.fields => {}
            Some(want) => {
                text += &format!(
                    "\n  {}: too much {}, too little {}",
                    shown(entry),
                    fields::difference(&entry.fields, &want.fields),
                    fields::difference(&want.fields, &entry.fields)
                );
            }
        }
    }
    for entry in want.iter().filter(|w| !got.iter().any(|g| shown(w) == shown(g))) {
        text += &format!("\n  lacks {}: {}", shown(entry), entry.fields);
    }
    Err(format!("owners differ:{text}"))
}

fn schema_of(recorded: &Tree, kind: &str, api_version: &str) -> SchemaRef {
    if kind == "Thing" {
        return crd::compile(recorded.get("crd").expect("the schema of Thing")).expect("a structural schema");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    table::builtin().root(group, version, kind).expect("a built-in kind")
}

#[test]
fn owners_are_those_of_a_real_server() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ownership.json");
    let path = std::env::var_os("OWNERSHIP_CASES").map_or(data, Into::into);
    let recorded = Tree::parse(&std::fs::read(path).expect("recorded cases")).expect("JSON");
    let mut failures = Vec::new();
    let mut count = 0;
    for (i, sequence) in recorded.items_at(&["sequences"]).iter().enumerate() {
        let schema = schema_of(&recorded, sequence.str_at(&["kind"]), sequence.str_at(&["apiVersion"]));
        let mut live: Option<StoredObject> = None;
        for (j, step) in sequence.items_at(&["steps"]).iter().enumerate() {
            let case = Case { sequence, step, schema: schema.clone(), live: live.clone() };
            if let Err(why) = case.replay() {
                let what =
                    format!("{} {} by {}", sequence.str_at(&["kind"]), case.str("op"), case.str("manager"));
                failures.push(format!("{i}.{j} {what} {}: {why}", case.str("subresource")));
            }
            count += 1;
            live = case.object("after").or(live);
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 100, "only {count} cases");
}
