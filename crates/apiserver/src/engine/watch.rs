//! Watches: what there is, then every change, in order.
//!
//! A watch is a cursor into the store's history and a selection. It never queues: whoever is too slow is told that
//! it was overtaken.

use std::collections::VecDeque;

use muster_schema::error::FieldError;
use muster_store::{Cursor, Object, Range, Record};
use muster_tree::Tree;

use super::Engine;
use super::read::{bad_options, gone, parse_revision, unexpected};
use super::select::Selection;
use crate::request::{EventType, ListOptions, Target, WatchEvent};
use crate::status::Status;

/// A watch under way.
pub struct Watch {
    cursor: Cursor,
    selection: Selection,
    initial: VecDeque<WatchEvent>,
}

impl Engine {
    /// Begins a watch of a collection, or of one object when the target names one.
    ///
    /// # Errors
    /// 422 for options that contradict each other, 400 for a malformed selector, 410 when the start is no longer
    /// known, 504 when it lies in the future.
    pub fn watch(&self, target: &Target, options: &ListOptions) -> Result<Watch, Status> {
        let place = self.place(target)?;
        if !place.resource.allows(place.version, "watch") {
            return Err(Status::method_not_allowed());
        }
        let errors = wrong_options(options);
        if !errors.is_empty() {
            return Err(bad_options(&errors));
        }
        let selection = Selection::parse(&place, target, options)?;
        let wanted = parse_revision(&options.resource_version).map_err(|error| unexpected(&error))?;
        if let Some(wanted) = wanted {
            self.reached(wanted)?;
        }
        let all_first = match options.send_initial_events {
            Some(choice) => choice,
            None => wanted.unwrap_or(0) == 0,
        };
        let storage = &place.resource.storage;
        if !all_first {
            let from = wanted.filter(|n| *n != 0).unwrap_or_else(|| self.revision());
            let cursor = self.inner.store.watch(storage, from).map_err(gone)?;
            return Ok(Watch { cursor, selection, initial: VecDeque::new() });
        }
        let range = Range { namespace: selection.namespace(), ..Range::default() };
        let page = self.inner.store.list(storage, &range).map_err(gone)?;
        let cursor = self.inner.store.watch(storage, page.revision).map_err(gone)?;
        let streaming = options.send_initial_events == Some(true) && options.allow_bookmarks;
        let initial = initial(&page.objects, &selection, streaming.then_some(page.revision));
        Ok(Watch { cursor, selection, initial })
    }
}

fn initial(objects: &[Object], selection: &Selection, end: Option<u64>) -> VecDeque<WatchEvent> {
    let matching = objects.iter().filter(|object| selection.matches(object));
    let added = matching.map(|object| WatchEvent { kind: EventType::Added, object: object.clone() });
    let end = end.map(|revision| mark(EventType::InitialEventsEnd, revision));
    added.chain(end).collect()
}

fn mark(kind: EventType, revision: u64) -> WatchEvent {
    WatchEvent { kind, object: Object { revision, ..Object::new(Tree::empty_map()) } }
}

impl Watch {
    /// The next events, at most `max`; none when nothing has happened.
    ///
    /// # Errors
    /// 410 when this watch was overtaken by the history's bounds.
    pub fn next(&mut self, max: usize) -> Result<Vec<WatchEvent>, Status> {
        if !self.initial.is_empty() {
            let count = max.min(self.initial.len());
            return Ok(self.initial.drain(..count).collect());
        }
        loop {
            let records = self.cursor.next(max).map_err(gone)?;
            let nothing = records.is_empty();
            let events: Vec<WatchEvent> = records.iter().filter_map(|r| event(r, &self.selection)).collect();
            // A whole batch of unselected records is no reason to say that nothing is left.
            if nothing || !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// Whether [`Watch::next`] may have something to say.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.initial.is_empty() || self.cursor.has_news()
    }

    /// Wakes up when the resource changes. Take it, look for news, and only then wait.
    #[must_use]
    pub fn listen(&self) -> event_listener::EventListener {
        self.cursor.listen()
    }

    /// A bookmark at the revision up to which everything was delivered.
    #[must_use]
    pub fn bookmark(&self) -> WatchEvent {
        mark(EventType::Bookmark, self.cursor.revision())
    }

    /// Whether the initial events have all been handed out.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.initial.is_empty()
    }
}

/// What a change means to somebody who sees only the selection.
fn event(record: &Record, selection: &Selection) -> Option<WatchEvent> {
    let before = record.before.as_ref().filter(|object| selection.matches(object));
    let after = record.after.as_ref().filter(|object| selection.matches(object));
    let (kind, object) = match (before, after) {
        (None, None) => return None,
        (None, Some(now)) => (EventType::Added, now),
        (Some(_), Some(now)) => (EventType::Modified, now),
        (Some(then), None) => (EventType::Deleted, then),
    };
    let object = Object { revision: record.revision, ..object.clone() };
    Some(WatchEvent { kind, object })
}

fn wrong_options(options: &ListOptions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = options.resource_version_match.as_str();
    match options.send_initial_events {
        None if !rule.is_empty() => errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        Some(_) if rule.is_empty() => errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        Some(_) if rule != "NotOlderThan" => {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
            errors.push(FieldError::not_supported("resourceVersionMatch", rule, ["NotOlderThan"]));
        }
        _ => {}
    }
    if !options.continue_token.is_empty() {
        errors.push(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    errors
}
