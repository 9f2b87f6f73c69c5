//! Removes from answers what may differ between two servers: UIDs, timestamps, resource versions, addresses.
//!
//! An identity is replaced by the order of its first appearance, so that "the same object" and "the same resource version" stay
//! visible: a write that should have been a no-op is still detected.

use muster_tree::{Text, Tree};

use super::client::HttpAnswer;

/// Annotation of the bookmark that ends a streaming list.
const END_OF_LIST: [&str; 3] = ["metadata", "annotations", "k8s.io/initial-events-end"];

/// The identities seen so far in one scenario on one server.
#[derive(Default)]
pub struct Normaliser {
    namespace: String,
    uids: Vec<Text>,
    revisions: Vec<Text>,
}

impl Normaliser {
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    pub fn answer(&mut self, answer: &HttpAnswer) -> HttpAnswer {
        let body = sort_causes(&self.tree(&answer.body, ""));
        let mut warnings: Vec<String> = answer.warnings.iter().map(|w| self.words(w)).collect();
        warnings.sort();
        HttpAnswer { body, warnings, ..answer.clone() }
    }

    fn tree(&mut self, tree: &Tree, key: &str) -> Tree {
        match tree {
            Tree::Map(_) => {
                // The resource version of a list is that of the whole store, which other scenarios advance. The same holds for
                // the bookmark that ends a streaming list.
                let ends_list = tree.at(&END_OF_LIST).is_some();
                let collection = ends_list || tree.get("items").is_some() || tree.get("rows").is_some();
                let of_collection = |k: &str| collection && k == "metadata";
                let all = tree.entries().iter().map(|(k, v)| {
                    let v = if of_collection(k) { v.without_key("resourceVersion") } else { v.clone() };
                    // Keys in managedFields contain UIDs, too.
                    (self.words(k), self.tree(&v, k))
                });
                Tree::map(all.collect::<Vec<_>>())
            }
            Tree::List(_) if key == "managedFields" => {
                let mut items: Vec<Tree> = tree.items().iter().map(|v| self.tree(v, "")).collect();
                // The order of entries with equal times is the order of a Go map.
                items.sort_by_key(Tree::to_json);
                Tree::list(items)
            }
            // The server sends plain bookmarks by a timer; only the one that ends a streaming list has a defined position.
            Tree::List(_) if tree.items().iter().any(is_bookmark) => {
                let kept = tree.items().iter().filter(|event| !is_bookmark(event));
                Tree::list(kept.map(|v| self.tree(v, key)).collect::<Vec<_>>())
            }
            Tree::List(_) => Tree::list(tree.items().iter().map(|v| self.tree(v, key)).collect::<Vec<_>>()),
            Tree::Text(text) => self.text(text, key),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &Text, key: &str) -> Tree {
        if is_time(text) {
            return Tree::from("<time>");
        }
        match key {
            "resourceVersion" if !text.is_empty() => {
                Tree::from(format!("<revision {}>", place(&mut self.revisions, text)))
            }
            "token" if !text.is_empty() => Tree::from("<token>"),
            "cells" if is_age(text) => Tree::from("<age>"),
            "continue" if !text.is_empty() => Tree::from("<continue>"),
            "clusterIP" | "clusterIPs" if text.starts_with("10.") => Tree::from("<address>"),
            _ => Tree::from(self.words(text)),
        }
    }

    /// Replaces namespaces, UIDs, resource versions and times in text.
    fn words(&mut self, text: &str) -> String {
        let mut text = without_dump(&without_embedded_object(&text.replace(&self.namespace, "<ns>")));
        text = without_number_after(&text, "ResourceVersion in record (");
        while let Some(uid) = first_uid(&text) {
            let n = place(&mut self.uids, &uid);
            text = text.replace(uid.as_str(), &format!("<uid {n}>"));
        }
        text.split(' ')
            .map(|word| if is_time(word.trim_matches('"')) { "<time>" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// kube-apiserver orders several causes by a Go map, and repeats them in the message in that order.
fn sort_causes(status: &Tree) -> Tree {
    let path = ["details", "causes"];
    let mut causes = status.items_at(&path).to_vec();
    if causes.len() < 2 {
        return status.clone();
    }
    causes.sort_by_key(Tree::to_json);
    let message = status.str_at(&["message"]);
    let start = message.split(": [").next().unwrap_or_default();
    status.with(&path, Tree::list(causes)).with(&["message"], format!("{start}: <causes>"))
}

/// An error about a patch quotes the whole resulting object, in the key order of one server.
fn without_embedded_object(text: &str) -> String {
    const START: &str = "Invalid value: \"{";
    match (text.find(START), text.rfind("}\": ")) {
        (Some(from), Some(to)) if from < to => {
            format!("{}<object>{}", &text[..from + START.len() - 1], &text[to + 1..])
        }
        _ => text.to_owned(),
    }
}

/// kube-apiserver's errors about pod specs and claims dump Go types: a whole pod spec, and a diff of the changed lines. Ours have the
/// pod spec in its JSON form, and no diff.
fn without_dump(text: &str) -> String {
    const START: &str = "Invalid value: {";
    const END: &str = "}: field is immutable";
    let text = text.split("\n@@ -").next().unwrap_or_default();
    match (text.find(START), text.rfind(END)) {
        (Some(from), Some(to)) if from < to && text[from..to].to_lowercase().contains("\"containers\":") => {
            format!("{}<pod spec>{}", &text[..from + START.len() - 1], &text[to + 1..])
        }
        _ => text.to_owned(),
    }
}

fn without_number_after(text: &str, words: &str) -> String {
    let Some(at) = text.find(words) else {
        return text.to_owned();
    };
    let (before, after) = text.split_at(at + words.len());
    format!("{before}<n>{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn is_bookmark(event: &Tree) -> bool {
    let ends_list = event.get("object").is_some_and(|object| object.at(&END_OF_LIST).is_some());
    event.str_at(&["type"]) == "BOOKMARK" && !ends_list
}

fn place(seen: &mut Vec<Text>, text: &Text) -> usize {
    seen.iter().position(|t| t == text).unwrap_or_else(|| {
        seen.push(text.clone());
        seen.len() - 1
    })
}

/// Returns the first UID in a text.
pub(crate) fn first_uid(text: &str) -> Option<Text> {
    let bytes = text.as_bytes();
    bytes
        .windows(UID_LEN)
        .find(|window| is_uid(window))
        .map(|uid| Text::from(String::from_utf8_lossy(uid).as_ref()))
}

const UID_LEN: usize = 36;

pub(crate) fn is_uid(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-')
        && bytes.split(|b| *b == b'-').map(<[u8]>::len).eq([8, 4, 4, 4, 12])
}

/// Whether this is an age as in table cells: `0s`, `5m`, `2m3s`.
fn is_age(text: &str) -> bool {
    let units = text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    text.starts_with(|c: char| c.is_ascii_digit())
        && ["s", "m", "ms", "h", "hm", "d", "dh"].contains(&units.as_str())
}

/// Whether this is an RFC 3339 timestamp in UTC.
pub(crate) fn is_time(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 20 && b[4] == b'-' && b[7] == b'-' && b[10] == b'T' && b[13] == b':' && b.ends_with(b"Z")
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn dumps_of_go_types_are_left_out() {
        let cases = [
            (
                "spec: Forbidden: spec is immutable\n@@ -1,2 +1,2 @@\n-a\n+b\n",
                "spec: Forbidden: spec is immutable",
            ),
            (
                "s: Invalid value: {\"Volumes\":null,\"Containers\":[]}: field is immutable",
                "s: Invalid value: <pod spec>: field is immutable",
            ),
            (
                "s: Invalid value: {\"Rules\":[]}: field is immutable",
                "s: Invalid value: {\"Rules\":[]}: field is immutable",
            ),
        ];
        for (text, shown) in cases {
            assert_eq!(without_dump(text), shown);
        }
    }

    #[test]
    fn identities_become_their_order_of_appearance() {
        let uid = "0b7e6a4c-8e55-4f6b-9a0e-0f0b7e6a4c8e";
        let answer = |rv: &str| HttpAnswer {
            code: 200,
            warnings: vec![],
            media: String::new(),
            body: tree!({"metadata": {"uid": uid, "resourceVersion": rv, "creationTimestamp": "2026-01-02T03:04:05Z"},
                "message": format!("in ns-1 the uid is {uid}")}),
        };
        let mut normaliser = Normaliser::new("ns-1");
        let first = normaliser.answer(&answer("17")).body;
        assert_eq!(first.str_at(&["metadata", "resourceVersion"]), "<revision 0>");
        assert_eq!(first.str_at(&["metadata", "creationTimestamp"]), "<time>");
        assert_eq!(first.str_at(&["metadata", "uid"]), "<uid 0>");
        assert_eq!(
            normaliser.answer(&answer("19")).body.str_at(&["metadata", "resourceVersion"]),
            "<revision 1>"
        );
        let again = normaliser.answer(&answer("17")).body;
        assert_eq!(again.str_at(&["metadata", "resourceVersion"]), "<revision 0>");
        assert_eq!(again.str_at(&["message"]), "in <ns> the uid is <uid 0>");
    }
}
