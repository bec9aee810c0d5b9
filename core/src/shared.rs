//! A value that several views hold at once.

use std::{ops::Deref, sync::Arc};

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// A reference-counted immutable value: cloning a job or a whole state copies no text. Encoded as the value itself.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: Clone> Shared<T> {
    /// The value for change; copied first where another view holds it too.
    pub fn make_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<C, T: Encode<C>> Encode<C> for Shared<T> {
    fn encode<W: encode::Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), encode::Error<W::Error>> {
        self.0.encode(e, ctx)
    }
}

impl<'b, C, T: Decode<'b, C>> Decode<'b, C> for Shared<T> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        T::decode(d, ctx).map(Self::new)
    }
}

impl<T> Shared<T> {
    /// True if both are the very same value in memory. Quick; false tells nothing about equality.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
