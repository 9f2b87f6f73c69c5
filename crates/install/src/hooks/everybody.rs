//! Hooks about those who carry none of our keys: in namespaces with a queue for whoever names none, all who are new
//! are asked about, and nobody anywhere else.
//!
//! They are listed only while there is such a namespace; whoever leads keeps them.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree, tree};

use super::conditions::UNKEYED;
use super::{CONFIGURATIONS, Configuration, SPACE_NAME};

/// Their names, and each one's sibling: the hook about those who do carry keys.
pub const HOOKS: [(&str, &str); 4] = [
    ("mjob.muster.dev", "mjob.kb.io"),
    ("mjobset.muster.dev", "mjobset.kb.io"),
    ("mtrainjob.muster.dev", "mtrainjob.kb.io"),
    ("mpod.muster.dev", "mpod.kb.io"),
];

/// Where those are who are taken in although they name no queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spaces {
    /// In these.
    Named(BTreeSet<Text>),
    /// Wherever those may be who name one.
    All,
}

/// The configuration that lists them.
#[must_use]
pub fn configuration() -> &'static Configuration {
    &CONFIGURATIONS[0]
}

/// Whether a hook of this name is one of them.
#[must_use]
pub fn is_one(name: &str) -> bool {
    HOOKS.iter().any(|(own, _)| *own == name)
}

/// The hooks of that configuration as they should be; `None` when they are so. Each is asked where its sibling is.
#[must_use]
pub fn mended(configuration: &Tree, spaces: &Spaces) -> Option<Tree> {
    let there = configuration.items_at(&["webhooks"]);
    let named = |name: &str| there.iter().find(|it| it.str_at(&["name"]) == name);
    let made = HOOKS.iter().filter_map(|(name, sibling)| hook(name, named(sibling)?, spaces));
    let others = there.iter().filter(|it| !is_one(it.str_at(&["name"]))).cloned();
    let all: Vec<Tree> = others.chain(made).collect();
    (all != there).then(|| Tree::list(all))
}

fn hook(name: &str, sibling: &Tree, spaces: &Spaces) -> Option<Tree> {
    let hook = sibling.with(&["name"], name).with(&["matchConditions"], tree!([(UNKEYED.tree())]));
    match spaces {
        Spaces::All => Some(hook),
        Spaces::Named(names) if names.is_empty() => None,
        Spaces::Named(names) => {
            let names = Tree::list(names.iter().cloned());
            let these = tree!({"key": SPACE_NAME, "operator": "In", "values": names});
            Some(hook.with(&["namespaceSelector"], tree!({"matchExpressions": [these]})))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reached;
    use super::*;

    fn named(names: &[&str]) -> Spaces {
        Spaces::Named(names.iter().copied().map(Text::from).collect())
    }

    fn names(hooks: &Tree) -> Vec<&str> {
        hooks.items().iter().map(|it| it.str_at(&["name"])).filter(|name| is_one(name)).collect()
    }

    #[test]
    fn they_are_there_for_as_long_as_there_is_a_namespace_for_them() {
        let url = Reached::Url { base: "https://127.0.0.1:1", authority: "a" };
        let bare = configuration().object(configuration().hooks(&url, "own"));
        assert_eq!(mended(&bare, &named(&[])), None, "nothing to do");
        let made = mended(&bare, &named(&["b", "a"])).unwrap();
        assert_eq!(
            names(&made),
            ["mjob.muster.dev", "mjobset.muster.dev", "mtrainjob.muster.dev", "mpod.muster.dev"]
        );
        for hook in made.items().iter().filter(|it| is_one(it.str_at(&["name"]))) {
            let spaces = &hook.items_at(&["namespaceSelector", "matchExpressions"])[0];
            assert_eq!(spaces.items_at(&["values"]), [Tree::from("a"), Tree::from("b")]);
            assert_eq!(hook.str_at(&["clientConfig", "caBundle"]), "a", "asked where its sibling is");
            assert_eq!(hook.items_at(&["rules"])[0].items_at(&["operations"]), [Tree::from("CREATE")]);
        }
        let there = bare.with(&["webhooks"], made);
        assert_eq!(mended(&there, &named(&["a", "b"])), None, "once is enough");
        assert_eq!(mended(&there, &named(&[])).as_ref(), bare.get("webhooks"), "nobody is left to ask about");
        let all = mended(&there, &Spaces::All).unwrap();
        let pods = all.items().iter().find(|it| it.str_at(&["name"]) == "mpod.muster.dev").unwrap();
        let spaces = &pods.items_at(&["namespaceSelector", "matchExpressions"])[0];
        assert_eq!(spaces.items_at(&["values"]), [Tree::from("kube-system"), Tree::from("own")]);
    }
}
