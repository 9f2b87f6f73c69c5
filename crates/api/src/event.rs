//! Events: what a controller wants noted, and the v1 Event made of it.

use muster_tree::{Text, Tree, tree};

use crate::meta;
use crate::port::{Kind, Uid};
use crate::time::Time;
use crate::words::DEFAULT_NAMESPACE;

/// How serious a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Worth a look.
    Warning,
}

/// Which object a note is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct About {
    /// `apiVersion`.
    pub api_version: Text,
    /// `kind`.
    pub kind: Text,
    /// Namespace; empty when cluster-scoped.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

impl About {
    /// An object whose tree says its kind.
    #[must_use]
    pub fn of(kind: &Kind, word: &str, object: &Tree) -> About {
        About {
            api_version: meta::api_version(kind),
            kind: Text::from(word),
            namespace: meta::namespace(object),
            name: meta::name(object),
            uid: meta::uid(object),
        }
    }
}

/// A note of one controller about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Who notes it.
    pub by: Text,
    /// About what.
    pub about: About,
    /// How serious.
    pub severity: Severity,
    /// `reason`.
    pub reason: Text,
    /// `message`.
    pub message: Text,
    /// What its writer was doing; empty where events are told the old way. With it the event is of the new kind, whose
    /// repetition is a series.
    pub action: Text,
}

/// The longest message that servers take.
const MESSAGE_CHARS_MAX: usize = 1024;

/// Which of several equal writers tells; the new kind of events must say it.
const INSTANCE: &str = "muster";

impl Event {
    /// The namespace its v1 Event lives in.
    #[must_use]
    pub fn namespace(&self) -> Text {
        if self.about.namespace.is_empty() {
            Text::from(DEFAULT_NAMESPACE)
        } else {
            self.about.namespace.clone()
        }
    }

    /// The v1 Event called `name`, seen `count` times from `first` to `last`.
    #[must_use]
    pub fn tree(&self, name: &Text, message: &str, count: u32, first: Time, last: Time) -> Tree {
        let severity = match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let about = &self.about;
        let mut object = tree!({"apiVersion": &about.api_version, "kind": &about.kind, "name": &about.name, "uid": &about.uid});
        if !about.namespace.is_empty() {
            object = object.with(&["namespace"], &about.namespace);
        }
        let message = clipped(message);
        let event = tree!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": self.namespace()},
            "involvedObject": object, "type": severity, "reason": &self.reason, "message": message,
            "count": count, "firstTimestamp": first.to_seconds_text(), "lastTimestamp": last.to_seconds_text(),
            "source": {"component": &self.by}, "reportingComponent": &self.by, "reportingInstance": ""});
        if self.action.is_empty() {
            return event;
        }
        let new = tree!({"action": &self.action, "reportingInstance": INSTANCE, "eventTime": first.to_micros_text()});
        event.merge(&new).merge(&self.series(count, last))
    }

    /// A merge patch that counts one more of a noted event.
    #[must_use]
    pub fn counted(&self, message: &str, count: u32, last: Time) -> Tree {
        let patch =
            tree!({"count": count, "message": clipped(message), "lastTimestamp": last.to_seconds_text()});
        patch.merge(&self.series(count, last))
    }

    fn series(&self, count: u32, last: Time) -> Tree {
        if self.action.is_empty() || count < 2 {
            return Tree::empty_map();
        }
        tree!({"series": {"count": count, "lastObservedTime": last.to_micros_text()}})
    }
}

/// A message no longer than servers take it.
fn clipped(message: &str) -> &str {
    let end = message.char_indices().nth(MESSAGE_CHARS_MAX).map_or(message.len(), |(at, _)| at);
    &message[..end]
}

/// What such a patch, or an Event, says.
#[must_use]
pub fn message_of(tree: &Tree) -> Text {
    tree.text_at(&["message"])
}
