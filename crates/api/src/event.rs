//! Events that controllers emit, and the v1 Event objects that the event recorder writes for them.

use muster_tree::{Text, Tree, tree};

use crate::client::{Kind, Uid};
use crate::consts::DEFAULT_NAMESPACE;
use crate::meta;
use crate::time::Time;

/// `type` of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// Information about normal operation.
    Normal,
    /// A problem that may need attention.
    Warning,
}

/// The object that an Event regards: `involvedObject` of a v1 Event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "fields mirror ObjectReference")]
pub struct ObjectReference {
    pub api_version: Text,
    pub kind: Text,
    /// Empty for cluster-scoped objects.
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
}

impl ObjectReference {
    /// References an object of this kind.
    #[must_use]
    pub fn of(kind: &Kind, word: &str, object: &Tree) -> ObjectReference {
        ObjectReference {
            api_version: meta::api_version(kind),
            kind: Text::from(word),
            namespace: meta::namespace(object),
            name: meta::name(object),
            uid: meta::uid(object),
        }
    }
}

/// An event that a controller emits about one object; the event recorder aggregates repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Written to `reportingComponent` and `source.component`.
    pub reporting_controller: Text,
    /// The regarded object: `involvedObject`.
    pub regarding: ObjectReference,
    /// Severity: `type` of the Event.
    pub event_type: EventType,
    /// `reason`: a CamelCase word for programs; part of the aggregation key.
    pub reason: Text,
    /// `message`; cut to 1024 characters, the limit of API servers.
    pub message: Text,
    /// `action`: what the controller was doing. Empty for an Event in the old style; otherwise it is written in the style of
    /// `events.k8s.io`, which counts repetitions in a series.
    pub action: Text,
}

/// Longest `message` that API servers accept.
const MESSAGE_CHARS_MAX: usize = 1024;

/// `reportingInstance`, required for events in the new style.
const REPORTING_INSTANCE: &str = "muster";

impl Event {
    /// Namespace of the Event object: that of the regarded object, `default` for a cluster-scoped one.
    #[must_use]
    pub fn namespace(&self) -> Text {
        if self.regarding.namespace.is_empty() {
            Text::from(DEFAULT_NAMESPACE)
        } else {
            self.regarding.namespace.clone()
        }
    }

    /// The Event object of this name, after `count` occurrences from `first` to `last`.
    #[must_use]
    pub fn tree(&self, name: &Text, message: &str, count: u32, first: Time, last: Time) -> Tree {
        let severity = match self.event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let about = &self.regarding;
        let mut object = tree!({"apiVersion": &about.api_version, "kind": &about.kind, "name": &about.name, "uid": &about.uid});
        if !about.namespace.is_empty() {
            object = object.with(&["namespace"], &about.namespace);
        }
        let message = truncate_message(message);
        // count and the timestamps are the deprecated fields, which kubectl still shows.
        let event = tree!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": self.namespace()},
            "involvedObject": object, "type": severity, "reason": &self.reason, "message": message,
            "count": count, "firstTimestamp": first.to_seconds_text(), "lastTimestamp": last.to_seconds_text(),
            "source": {"component": &self.reporting_controller}, "reportingComponent": &self.reporting_controller, "reportingInstance": ""});
        if self.action.is_empty() {
            return event;
        }
        let new = tree!({"action": &self.action, "reportingInstance": REPORTING_INSTANCE, "eventTime": first.to_micros_text()});
        event.merge(&new).merge(&self.series(count, last))
    }

    /// A merge patch that records another occurrence of an existing Event.
    #[must_use]
    pub fn series_patch(&self, message: &str, count: u32, last: Time) -> Tree {
        let patch = tree!({"count": count, "message": truncate_message(message), "lastTimestamp": last.to_seconds_text()});
        patch.merge(&self.series(count, last))
    }

    fn series(&self, count: u32, last: Time) -> Tree {
        // A series starts with the second occurrence; a single event has none.
        if self.action.is_empty() || count < 2 {
            return Tree::empty_map();
        }
        tree!({"series": {"count": count, "lastObservedTime": last.to_micros_text()}})
    }
}

/// Cuts a message to [`MESSAGE_CHARS_MAX`] characters.
fn truncate_message(message: &str) -> &str {
    let end = message.char_indices().nth(MESSAGE_CHARS_MAX).map_or(message.len(), |(at, _)| at);
    &message[..end]
}

/// `message` of an Event object or of a series patch.
#[must_use]
pub fn event_message(tree: &Tree) -> Text {
    tree.text_at(&["message"])
}
