use crate::protobuf::Message;
use crate::status::Result;

/// ObjectMeta, the metadata of every object. Field numbers are those of
/// `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.
#[derive(Clone, Copy)]
pub struct Metadata<'a>(pub Message<'a>);

impl<'a> Metadata<'a> {
    pub fn name(self) -> Result<&'a [u8]> {
        Ok(self.0.bytes(1)?.unwrap_or_default())
    }

    pub fn namespace(self) -> Result<&'a [u8]> {
        Ok(self.0.bytes(3)?.unwrap_or_default())
    }

    pub fn uid(self) -> Result<&'a [u8]> {
        Ok(self.0.bytes(5)?.unwrap_or_default())
    }

    pub fn resource_version(self) -> Result<&'a [u8]> {
        Ok(self.0.bytes(6)?.unwrap_or_default())
    }

    /// The label's value, None where the object has no such label.
    pub fn label(self, key: &str) -> Result<Option<&'a [u8]>> {
        self.0.entry(11, key)
    }

    /// The annotation's value, None where the object has no such annotation.
    pub fn annotation(self, key: &str) -> Result<Option<&'a [u8]>> {
        self.0.entry(12, key)
    }
}
