//! Plain values.

use crate::{Damaged, Freeze, Reader, Writer, layout, mix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::time::Duration;

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Freeze for $type {
            const LAYOUT: u64 = layout(stringify!($type));
            fn freeze(&self, out: &mut Writer) {
                out.number(*self as u64);
            }
            fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                <$type>::try_from(from.number()?).map_err(|_| Damaged)
            }
        }
    )*};
}

numbers!(u16, u32, u64, usize);

macro_rules! signed {
    ($($type:ty),*) => {$(
        impl Freeze for $type {
            const LAYOUT: u64 = layout(stringify!($type));
            fn freeze(&self, out: &mut Writer) {
                out.raw(&self.to_le_bytes());
            }
            fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Ok(<$type>::from_le_bytes(from.array()?))
            }
        }
    )*};
}

signed!(i16, i32, i64, u128, f64);

impl Freeze for u8 {
    const LAYOUT: u64 = layout("u8");

    fn freeze(&self, out: &mut Writer) {
        out.raw(&[*self]);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let [byte] = from.array()?;
        Ok(byte)
    }

    fn freeze_slice(values: &[Self], out: &mut Writer) {
        out.raw(values);
    }

    fn thaw_vec(from: &mut Reader<'_>, count: usize) -> Result<Vec<Self>, Damaged> {
        from.raw(count).map(<[u8]>::to_vec)
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Freeze),+> Freeze for ($($name,)+) {
            const LAYOUT: u64 = {
                let mut layout = layout("()");
                $(layout = mix(layout, $name::LAYOUT);)+
                layout
            };
            #[allow(non_snake_case)]
            fn freeze(&self, out: &mut Writer) {
                let ($($name,)+) = self;
                $($name.freeze(out);)+
            }
            fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Ok(($($name::thaw(from)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

impl Freeze for bool {
    const LAYOUT: u64 = layout("bool");

    fn freeze(&self, out: &mut Writer) {
        out.number((*self).into());
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        match from.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged),
        }
    }
}

/// It takes one byte, because a count of values without bytes could be of any size.
impl Freeze for () {
    const LAYOUT: u64 = layout("()");

    fn freeze(&self, out: &mut Writer) {
        out.number(0);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.number().map(|_| ())
    }
}

impl<T: Freeze> Freeze for Option<T> {
    const LAYOUT: u64 = mix(layout("Option"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        self.is_some().freeze(out);
        if let Some(value) = self {
            value.freeze(out);
        }
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        bool::thaw(from)?.then(|| T::thaw(from)).transpose()
    }
}

impl<T: Freeze> Freeze for Box<T> {
    const LAYOUT: u64 = T::LAYOUT;

    fn freeze(&self, out: &mut Writer) {
        T::freeze(self, out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Box::new(T::thaw(from)?))
    }
}

impl<T: Freeze> Freeze for Range<T> {
    const LAYOUT: u64 = mix(layout("Range"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        self.start.freeze(out);
        self.end.freeze(out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(T::thaw(from)?..T::thaw(from)?)
    }
}

impl<T: Freeze, const N: usize> Freeze for [T; N] {
    const LAYOUT: u64 = mix(mix(layout("[]"), N as u64), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        self.iter().for_each(|element| element.freeze(out));
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let elements: Vec<T> = (0..N).map(|_| T::thaw(from)).collect::<Result<_, _>>()?;
        elements.try_into().map_err(|_| Damaged)
    }
}

impl Freeze for String {
    const LAYOUT: u64 = layout("str");

    fn freeze(&self, out: &mut Writer) {
        out.bytes(self.as_bytes());
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        std::str::from_utf8(from.bytes()?)
            .map(String::from)
            .map_err(|_| Damaged)
    }
}

impl Freeze for Box<str> {
    const LAYOUT: u64 = layout("str");

    fn freeze(&self, out: &mut Writer) {
        out.bytes(self.as_bytes());
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(String::thaw(from)?.into())
    }
}

/// For words that are in the program, of which there are few.
impl Freeze for &'static str {
    const LAYOUT: u64 = layout("word");

    fn freeze(&self, out: &mut Writer) {
        out.bytes(self.as_bytes());
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        from.word()
    }
}

impl Freeze for char {
    const LAYOUT: u64 = layout("char");

    fn freeze(&self, out: &mut Writer) {
        u32::from(*self).freeze(out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        char::from_u32(u32::thaw(from)?).ok_or(Damaged)
    }
}

impl Freeze for Duration {
    const LAYOUT: u64 = layout("Duration");

    fn freeze(&self, out: &mut Writer) {
        (self.as_secs(), self.subsec_nanos()).freeze(out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (seconds, nanoseconds) = <(u64, u32)>::thaw(from)?;
        let rest = Duration::from_nanos(nanoseconds.into());
        Duration::from_secs(seconds).checked_add(rest).ok_or(Damaged)
    }
}

impl Freeze for IpAddr {
    const LAYOUT: u64 = layout("IpAddr");

    fn freeze(&self, out: &mut Writer) {
        match self {
            IpAddr::V4(address) => out.bytes(&address.octets()),
            IpAddr::V6(address) => out.bytes(&address.octets()),
        }
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let bytes = from.bytes()?;
        let v4 = <[u8; 4]>::try_from(bytes).map(|b| IpAddr::V4(Ipv4Addr::from(b)));
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|b| IpAddr::V6(Ipv6Addr::from(b))))
            .map_err(|_| Damaged)
    }
}

impl Freeze for SocketAddr {
    const LAYOUT: u64 = layout("SocketAddr");

    fn freeze(&self, out: &mut Writer) {
        let (flow, scope) = match self {
            SocketAddr::V4(_) => (0, 0),
            SocketAddr::V6(address) => (address.flowinfo(), address.scope_id()),
        };
        (self.ip(), self.port(), flow, scope).freeze(out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (ip, port, flow, scope) = <(IpAddr, u16, u32, u32)>::thaw(from)?;
        Ok(match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, flow, scope).into(),
        })
    }
}
