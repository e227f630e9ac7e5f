//! The official protocol of the SPIRE server: messages, clients and servers of `Agent`, `Entry` and `Bundle`.
//!
//! The build script makes it; `docs/decisions/007-spire-protos.md` says from what.

mod generated {
    #![expect(missing_docs, reason = "the protocol files have their own comments")]
    #![expect(clippy::allow_attributes, clippy::too_many_lines, reason = "generated code is not read")]
    #![expect(unreachable_pub, reason = "what is of use is exported below")]

    include!(concat!(env!("OUT_DIR"), "/spire.rs"));
}

pub use generated::spire::api::{
    server::{agent::v1 as agent, bundle::v1 as bundle, entry::v1 as entry},
    types,
};
