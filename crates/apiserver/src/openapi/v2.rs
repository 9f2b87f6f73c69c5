//! OpenAPI v2 without definitions, for clients that require the endpoint.

use muster_tree::{Tree, tree};

/// The media type that kubectl requests: protobuf.
pub const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the response: the requested name is no legal media type, and Go rejects it.
pub const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

const SWAGGER: &str = "2.0";
const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.37";

#[must_use]
pub fn json() -> Tree {
    tree!({"swagger": SWAGGER, "info": {"title": TITLE, "version": VERSION}, "paths": {}})
}

/// The document as protobuf: `swagger` is field 1, `info` field 2 with `title` and `version` as its fields 1 and 2.
#[must_use]
pub fn protobuf() -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, SWAGGER.as_bytes()), field(2, &info)].concat()
}

/// A field of bytes, shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 0x80);
    let mut made = vec![number << 3 | LENGTH_DELIMITED, length.expect("all fields here are short")];
    made.extend_from_slice(bytes);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protobuf_form_is_what_protobuf_says() {
        assert_eq!(protobuf(), b"\n\x032.0\x12\x13\n\nKubernetes\x12\x05v1.37");
    }
}
