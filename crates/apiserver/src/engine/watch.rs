//! Watches: the initial objects, then every change in order.
//!
//! A watch is a cursor into the store's history with a selection. It has no queue: when history is compacted past a
//! slow watch, it gets 410.

use std::collections::VecDeque;

use muster_schema::error::FieldError;
use muster_store::{Cursor, Range, Record, StoredObject};
use muster_tree::Tree;

use super::ApiEngine;
use super::read::{bad_options, gone, parse_revision, unexpected};
use super::selection::ListSelection;
use crate::request::{EventType, ListOptions, ResourcePath, WatchEvent};
use crate::status::Status;

pub struct ResourceWatch {
    cursor: Cursor,
    selection: ListSelection,
    initial: VecDeque<WatchEvent>,
}

impl ApiEngine {
    /// Starts a watch of a collection, or of one object when the path names one.
    ///
    /// # Errors
    /// 422 for contradictory options, 400 for a malformed selector, 410 when the revision is compacted, 504 when it
    /// lies in the future.
    pub fn watch(&self, target: &ResourcePath, options: &ListOptions) -> Result<ResourceWatch, Status> {
        let place = self.resolve(target)?;
        if !place.resource.allows(place.version, "watch") {
            return Err(Status::method_not_allowed());
        }
        let errors = wrong_options(options);
        if !errors.is_empty() {
            return Err(bad_options(&errors));
        }
        let selection = ListSelection::parse(&place, target, options)?;
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
            return Ok(ResourceWatch { cursor, selection, initial: VecDeque::new() });
        }
        let range = Range { namespace: selection.namespace(), ..Range::default() };
        // The watch starts at the revision of this list: no event is lost or repeated.
        let page = self.inner.store.list(storage, &range).map_err(gone)?;
        let cursor = self.inner.store.watch(storage, page.revision).map_err(gone)?;
        let streaming = options.send_initial_events == Some(true) && options.allow_bookmarks;
        let initial = initial(&page.objects, &selection, streaming.then_some(page.revision));
        Ok(ResourceWatch { cursor, selection, initial })
    }
}

fn initial(objects: &[StoredObject], selection: &ListSelection, end: Option<u64>) -> VecDeque<WatchEvent> {
    let matching = objects.iter().filter(|object| selection.matches(object));
    let added = matching.map(|object| WatchEvent { kind: EventType::Added, object: object.clone() });
    let end = end.map(|revision| bookmark_event(EventType::InitialEventsEnd, revision));
    added.chain(end).collect()
}

fn bookmark_event(kind: EventType, revision: u64) -> WatchEvent {
    WatchEvent { kind, object: StoredObject { revision, ..StoredObject::new(Tree::empty_map()) } }
}

impl ResourceWatch {
    /// The next events, at most `max`; empty when there are none.
    ///
    /// # Errors
    /// 410 when history was compacted past this watch.
    pub fn next(&mut self, max: usize) -> Result<Vec<WatchEvent>, Status> {
        if !self.initial.is_empty() {
            let count = max.min(self.initial.len());
            return Ok(self.initial.drain(..count).collect());
        }
        loop {
            let records = self.cursor.next(max).map_err(gone)?;
            let nothing = records.is_empty();
            let events: Vec<WatchEvent> = records.iter().filter_map(|r| event(r, &self.selection)).collect();
            // A batch without selected records does not mean that none is left.
            if nothing || !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// Whether [`ResourceWatch::next`] may return events.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.initial.is_empty() || self.cursor.has_news()
    }

    /// Notifies on changes of the resource. Register first, then check for events, and only then wait.
    #[must_use]
    pub fn listen(&self) -> event_listener::EventListener {
        self.cursor.listen()
    }

    /// A bookmark at the revision up to which all events were returned.
    #[must_use]
    pub fn bookmark(&self) -> WatchEvent {
        bookmark_event(EventType::Bookmark, self.cursor.revision())
    }

    /// Whether all initial events were returned.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.initial.is_empty()
    }
}

/// Maps a change to the selection: an object that starts to match is ADDED, one that stops matching DELETED.
fn event(record: &Record, selection: &ListSelection) -> Option<WatchEvent> {
    let before = record.before.as_ref().filter(|object| selection.matches(object));
    let after = record.after.as_ref().filter(|object| selection.matches(object));
    let (kind, object) = match (before, after) {
        (None, None) => return None,
        (None, Some(now)) => (EventType::Added, now),
        (Some(_), Some(now)) => (EventType::Modified, now),
        (Some(then), None) => (EventType::Deleted, then),
    };
    let object = StoredObject { revision: record.revision, ..object.clone() };
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
