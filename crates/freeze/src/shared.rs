//! Values that are shared by several places.

use crate::{Damaged, Freeze, Reader, Writer, layout, mix};
use std::sync::Arc;

fn freeze_shared<T: ?Sized>(arc: &Arc<T>, out: &mut Writer, content: impl FnOnce(&T, &mut Writer)) {
    let address = Arc::as_ptr(arc).cast::<()>() as usize;
    if !out.reference(address) {
        content(arc, out);
        out.share(address);
    }
}

impl<T: Freeze + 'static> Freeze for Arc<T> {
    const LAYOUT: u64 = mix(layout("Arc"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_shared(self, out, T::freeze);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.shared(|from| Ok(Arc::new(T::thaw(from)?)))
    }
}

impl<T: Freeze + 'static> Freeze for Arc<[T]> {
    const LAYOUT: u64 = mix(layout("Arc[]"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_shared(self, out, crate::collections::freeze_slice);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.shared(|from| Ok(Vec::thaw(from)?.into()))
    }
}

impl Freeze for Arc<str> {
    const LAYOUT: u64 = layout("Arc<str>");

    fn freeze(&self, out: &mut Writer) {
        freeze_shared(self, out, |text, out| out.bytes(text.as_bytes()));
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.shared(|from| Ok(String::thaw(from)?.into()))
    }
}
