//! How webhooks are encrypted: `tls` of our own document and of others'.

use muster_apiserver::http::serving::Tls;
use muster_tree::Tree;

use super::shape::Wrong;

/// What a document says, if it says anything.
///
/// # Errors
/// What is wrong with it.
pub fn read(document: &Tree) -> Result<Option<Tls>, Wrong> {
    let Some(tls) = document.get("tls").filter(|it| it.is_map()) else { return Ok(None) };
    let suites = tls.items_at(&["cipherSuites"]).iter().filter_map(Tree::as_str);
    let suites: Vec<String> = suites.map(str::to_owned).collect();
    Tls::parse(tls.str_at(&["minVersion"]), &suites).map(Some).map_err(|error| {
        let words = error.to_string();
        let (path, words) = words.split_once(": ").unwrap_or(("tls", words.as_str()));
        Wrong::at(path, words)
    })
}

/// Adds what is wrong with it.
pub fn check(document: &Tree, wrong: &mut Vec<Wrong>) {
    wrong.extend(read(document).err());
}
