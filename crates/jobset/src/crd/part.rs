//! Words to describe fields with: each makes a part of a schema, or adds a rule to one.

use muster_tree::Tree;

/// What may stand in one place.
#[derive(Debug, Clone)]
pub(super) struct Part(Tree);

/// Any string.
pub(super) fn text() -> Part {
    of_type("string")
}

/// One of these words.
pub(super) fn word(words: &[&str]) -> Part {
    text().with("enum", Tree::list(words.iter().copied()))
}

/// True or false.
pub(super) fn truth() -> Part {
    of_type("boolean")
}

/// A number of unsaid size.
pub(super) fn int() -> Part {
    of_type("integer")
}

/// A number that Go keeps in 32 bits.
pub(super) fn int32() -> Part {
    int().with("format", "int32")
}

/// A number that Go keeps in 64 bits.
pub(super) fn int64() -> Part {
    int().with("format", "int64")
}

/// Free keys, each with a string.
pub(super) fn labels() -> Part {
    of_type("object").with("additionalProperties", text().0)
}

/// These fields. Those whose name ends in `!` must be there.
pub(super) fn object<const N: usize>(fields: [(&str, Part); N]) -> Part {
    let required = Tree::list(fields.iter().filter_map(|(name, _)| name.strip_suffix('!')));
    let all = fields.into_iter().map(|(name, part)| (name.trim_end_matches('!'), part.0));
    of_type("object").with_some("properties", Tree::map(all)).with_some("required", required)
}

/// A list that is owned and replaced as a whole.
pub(super) fn atoms(item: Part) -> Part {
    list(item).with("x-kubernetes-list-type", "atomic")
}

/// A list whose items are told apart by one field.
pub(super) fn keyed(key: &str, item: Part) -> Part {
    list(item).with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", Tree::list([key]))
}

/// A list about whose items nothing is said.
pub(super) fn list(item: Part) -> Part {
    of_type("array").with("items", item.0)
}

/// A type of Kubernetes, by its name in the schema table.
pub(super) fn kubernetes(component: &str) -> Part {
    Part(Tree::map([("$ref", component)]))
}

fn of_type(word: &str) -> Part {
    Part(Tree::map([("type", word)]))
}

impl Part {
    /// The schema.
    pub(super) fn tree(&self) -> Tree {
        self.0.clone()
    }

    /// What stands here when the client says nothing.
    pub(super) fn default(self, value: impl Into<Tree>) -> Part {
        self.with("default", value)
    }

    /// The smallest number.
    pub(super) fn min(self, least: i64) -> Part {
        self.with("minimum", least)
    }

    /// The length of the longest list.
    pub(super) fn max_items(self, most: i64) -> Part {
        self.with("maxItems", most)
    }

    /// The fewest and the most characters.
    pub(super) fn length(self, least: i64, most: i64) -> Part {
        self.with("minLength", least).with("maxLength", most)
    }

    /// What the text looks like.
    pub(super) fn pattern(self, pattern: &str) -> Part {
        self.with("pattern", pattern)
    }

    /// A CEL rule and what is said when it does not hold.
    pub(super) fn rule(self, rule: &str, message: &str) -> Part {
        let rule = Tree::map([("rule", rule), ("message", message)]);
        self.with("x-kubernetes-validations", Tree::list([rule]))
    }

    /// Once set, it stays as it is. Setting and removing it as a whole is not seen by such a rule.
    pub(super) fn immutable(self) -> Part {
        self.rule("self == oldSelf", "Value is immutable")
    }

    fn with(self, key: &str, value: impl Into<Tree>) -> Part {
        Part(self.0.with_key(key, value.into()))
    }

    fn with_some(self, key: &str, value: Tree) -> Part {
        if value.is_empty() { self } else { self.with(key, value) }
    }
}
