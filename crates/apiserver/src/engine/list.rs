//! Lists: a consistent snapshot, whole or page by page.

use muster_schema::error::FieldError;
use muster_store::{Object, Page, Range};
use muster_tree::Text;

use super::read::{bad_options, parse_revision};
use super::select::Selection;
use super::token::Continue;
use super::{Engine, Place};
use crate::request::{ListOptions, ListReply, Target};
use crate::status::Status;

/// How many objects are looked at in one go when a selector narrows a paged list.
const WALK: usize = 500;

/// Which state a list reads.
#[derive(Debug, Clone)]
struct From {
    revision: Option<u64>,
    after: Option<(Text, Text)>,
}

impl Engine {
    /// A page of a list.
    ///
    /// # Errors
    /// 422 for options that contradict each other, 400 for a malformed selector or token, 410 when the asked
    /// state is no longer known, 504 when it lies in the future.
    pub fn list(&self, target: &Target, options: &ListOptions) -> Result<ListReply, Status> {
        let place = self.place(target)?;
        if !place.resource.allows(place.version, "list") {
            return Err(Status::method_not_allowed());
        }
        let errors = wrong_options(options);
        if !errors.is_empty() {
            return Err(bad_options(&errors));
        }
        let selection = Selection::parse(&place, target, options)?;
        let from = self.start(options)?;
        if options.resource_version == "0" {
            // Whoever takes any state gets it whole, as from the cache of the real server.
            return self.collect(&place, &selection, &from, &ListOptions { limit: 0, ..options.clone() });
        }
        self.collect(&place, &selection, &from, options)
    }

    fn start(&self, options: &ListOptions) -> Result<From, Status> {
        let wanted = parse_revision(&options.resource_version)
            .map_err(|e| Status::bad_request(format!("invalid resource version: {e}")))?;
        if !options.continue_token.is_empty() {
            if wanted.is_some_and(|n| n != 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = Continue::decode(&options.continue_token)?;
            return Ok(From { revision: token.revision, after: Some(token.after) });
        }
        let Some(wanted) = wanted.filter(|n| *n != 0) else {
            return Ok(From { revision: None, after: None });
        };
        self.reached(wanted)?;
        let exact = match options.resource_version_match.as_str() {
            "Exact" => true,
            "" => options.limit > 0,
            _ => false,
        };
        Ok(From { revision: exact.then_some(wanted), after: None })
    }

    fn collect(
        &self,
        place: &Place,
        selection: &Selection,
        from: &From,
        options: &ListOptions,
    ) -> Result<ListReply, Status> {
        if let (Some(name), None) = (selection.name(), &from.after)
            && let Some(reply) = self.single(place, selection, &name, from)
        {
            return Ok(reply);
        }
        let mut range = Range {
            namespace: selection.namespace(),
            after: from.after.clone(),
            revision: from.revision,
            ..Range::default()
        };
        let mut found: Vec<Object> = Vec::new();
        loop {
            range.limit = page_size(options.limit, selection.is_filtered());
            let page = self.page(place, &range, options)?;
            let (revision, remaining) = (page.revision, page.remaining);
            let last = page.objects.last().map(place_of);
            for (at, object) in page.objects.iter().enumerate() {
                if !selection.matches(object) {
                    continue;
                }
                found.push(object.clone());
                if options.limit > 0 && found.len() == options.limit {
                    let left = remaining + page.objects.len() - at - 1;
                    return Ok(reply(found, revision, left, selection));
                }
            }
            if remaining == 0 {
                return Ok(reply(found, revision, 0, selection));
            }
            // Later pages must show the very state of the first.
            range.revision = from.revision.or(Some(revision)).filter(|_| !is_loose(options, from));
            range.after = last;
        }
    }

    fn page(&self, place: &Place, range: &Range, options: &ListOptions) -> Result<Page, Status> {
        let page = self.inner.store.list(&place.resource.storage, range);
        page.map_err(|_| {
            if options.continue_token.is_empty() {
                return Status::new(410, "Expired", "The resourceVersion for the provided list is too old.");
            }
            let mut status = Status::new(410, "Expired", CONTINUE_EXPIRED);
            if let Some(after) = &range.after {
                status.details.continue_token =
                    Continue { revision: None, after: after.clone() }.encode().to_string();
            }
            status
        })
    }

    /// A list that one name selects is a look-up.
    fn single(&self, place: &Place, selection: &Selection, name: &Text, from: &From) -> Option<ListReply> {
        if from.revision.is_some() {
            return None;
        }
        let namespace = match selection.namespace() {
            Some(namespace) => namespace,
            None if place.resource.namespaced => return None,
            None => Text::new(),
        };
        // The revision first: what is read afterwards is at least as new, and the client goes on watching from it.
        let revision = self.inner.store.revision();
        let object = self.inner.store.get(&place.resource.key(&namespace, name));
        let newer = object.as_ref().is_some_and(|o| o.revision > revision);
        if newer || self.inner.store.revision() != revision {
            return None;
        }
        let objects: Vec<Object> = object.into_iter().filter(|o| selection.matches(o)).collect();
        Some(ListReply { objects, revision, continue_token: Text::new(), remaining: None })
    }
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn is_loose(options: &ListOptions, from: &From) -> bool {
    !options.continue_token.is_empty() && from.revision.is_none()
}

fn page_size(limit: usize, filtered: bool) -> Option<usize> {
    match limit {
        0 => None,
        _ if filtered => Some(limit.max(WALK)),
        n => Some(n),
    }
}

fn place_of(object: &Object) -> (Text, Text) {
    (object.tree.text_at(&["metadata", "namespace"]), object.tree.text_at(&["metadata", "name"]))
}

fn reply(objects: Vec<Object>, revision: u64, left: usize, selection: &Selection) -> ListReply {
    let continue_token = match objects.last() {
        Some(last) if left > 0 => Continue { revision: Some(revision), after: place_of(last) }.encode(),
        _ => Text::new(),
    };
    let remaining = (left > 0 && !selection.is_filtered()).then_some(left);
    ListReply { objects, revision, continue_token, remaining }
}

fn wrong_options(options: &ListOptions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rule = options.resource_version_match.as_str();
    let version = options.resource_version.as_str();
    if !rule.is_empty() {
        if version.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(rule, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(
                "resourceVersionMatch",
                rule,
                ["Exact", "NotOlderThan", ""],
            ));
        }
        if rule == "Exact" && version == "0" {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if options.send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    errors
}
