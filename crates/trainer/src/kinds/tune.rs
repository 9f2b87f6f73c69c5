//! torchtune: what the name of a runtime and the words of a command say.

use muster_tree::{Text, Tree};

/// Models that can be tuned.
pub const MODELS: [&str; 4] = ["llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B"];
/// The only one of them that several nodes can tune.
pub const MULTI_NODE: &str = "llama3_3/70B";
/// The one that has no quantised form.
pub const UNQUANTIZED: &str = "qwen2_5/1.5B";
/// Those whose quantised form runs on one device.
pub const ONE_DEVICE_QUANTIZED: [&str; 2] = ["llama3_2/1B", "llama3_2/3B"];

/// What a runtime says and nobody may change.
pub const MANAGED_KEYS: [&str; 4] =
    ["output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"];

const LORA: &str = "model.lora_attn_modules";
const QUANTIZED: &str = "model.quantize_base";
const DORA: &str = "model.use_dora";

/// How a model is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All of it.
    Full,
    /// Adapters.
    Lora,
    /// Adapters of a quantised model.
    Qlora,
}

/// Whether this command is torchtune's.
#[must_use]
pub fn is_tune(command: &[Tree]) -> bool {
    matches!(command, [first, second] if first.as_str() == Some("tune") && second.as_str() == Some("run"))
}

/// The model that a runtime's name names: `torchtune-llama3.2-1b` is for `llama3_2/1B`. None when it cannot be tuned.
#[must_use]
pub fn model(runtime: &str) -> Option<&'static str> {
    let parts: Vec<&str> = runtime.split('-').collect();
    let [_, family, size] = parts.as_slice() else { return None };
    let name = format!("{}/{}", family.replace('.', "_"), size.to_uppercase());
    MODELS.into_iter().find(|it| *it == name)
}

/// The key of a word `key=value`.
#[must_use]
pub fn key(word: &str) -> &str {
    word.split_once('=').map_or(word, |(key, _)| key)
}

/// How the words of a command tune.
#[must_use]
pub fn mode(args: &[Text]) -> Mode {
    let says = |wanted: &str| {
        args.iter().any(|word| {
            word.split_once('=')
                .is_some_and(|(key, value)| key.contains(wanted) && value.trim().eq_ignore_ascii_case("true"))
        })
    };
    if says(QUANTIZED) && !says(DORA) {
        Mode::Qlora
    } else if args.iter().any(|word| word.contains(LORA)) {
        Mode::Lora
    } else {
        Mode::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_model() {
        for (name, want) in [
            ("torchtune-llama3.2-1b", Some("llama3_2/1B")),
            ("torchtune-qwen2.5-1.5b", Some("qwen2_5/1.5B")),
            ("torchtune-llama3.3-70b", Some("llama3_3/70B")),
            ("torchtune-llama3.2-7b", None),
            ("torchtune-llama3.2", None),
            ("my-torchtune-llama3.2-1b", None),
        ] {
            assert_eq!(model(name), want, "{name}");
        }
    }

    #[test]
    fn words_tell_the_mode() {
        let lora = "model.lora_attn_modules=[q_proj]";
        for (args, want) in [
            (vec!["epochs=1"], Mode::Full),
            (vec![lora], Mode::Lora),
            (vec![lora, "model.quantize_base=True"], Mode::Qlora),
            (vec![lora, "model.quantize_base=TRUE", "model.use_dora=true"], Mode::Lora),
            (vec![lora, "model.quantize_base=false"], Mode::Lora),
        ] {
            let words: Vec<Text> = args.iter().map(|it| Text::from(*it)).collect();
            assert_eq!(mode(&words), want, "{args:?}");
        }
        assert_eq!(key("output_dir=/x=y"), "output_dir");
    }
}
