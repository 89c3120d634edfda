//! `#[derive(Freeze)]`: every field in the order of its declaration. See the crate `pgweir-freeze`.
//!
//! A field marked `#[freeze(skip)]` is not written; after thawing it has its default value. If types contain each
//! other, one of the fields of the cycle is marked `#[freeze(cycle)]`, and its type is not part of the layout.
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Field, Fields, GenericParam, Generics, Ident, Type, parse_macro_input, parse_quote};

/// Implements `pgweir_freeze::Freeze` for a struct or an enum.
#[proc_macro_derive(Freeze, attributes(freeze))]
pub fn derive_freeze(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// The parts of an implementation.
struct Parts {
    /// Text for the layout's hash: names and order of fields and variants.
    text: String,
    /// The types of all written fields.
    types: Vec<Type>,
    freeze: TokenStream,
    thaw: TokenStream,
}

fn expand(input: DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let parts = match &input.data {
        Data::Struct(data) => of_struct(name, &data.fields)?,
        Data::Enum(data) => of_enum(name, data.variants.iter().map(|v| (&v.ident, &v.fields)))?,
        Data::Union(data) => return Err(syn::Error::new_spanned(data.union_token, "a union cannot be frozen")),
    };
    let Parts {
        text,
        types,
        freeze,
        thaw,
    } = parts;
    let generics = bounded(input.generics);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::pgweir_freeze::Freeze for #name #type_generics #where_clause {
            const LAYOUT: u64 = {
                let mut layout = ::pgweir_freeze::layout(#text);
                #(layout = ::pgweir_freeze::mix(layout, <#types as ::pgweir_freeze::Freeze>::LAYOUT);)*
                layout
            };
            fn freeze(&self, out: &mut ::pgweir_freeze::Writer) {
                #freeze
            }
            fn thaw(from: &mut ::pgweir_freeze::Reader<'_>) -> ::core::result::Result<Self, ::pgweir_freeze::Damaged> {
                #thaw
            }
        }
    })
}

fn bounded(mut generics: Generics) -> Generics {
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::pgweir_freeze::Freeze));
        }
    }
    generics
}

/// Whether a field is marked with this word.
fn is_marked(field: &Field, mark: &str) -> syn::Result<bool> {
    let mut is_marked = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("freeze")) {
        attribute.parse_nested_meta(|meta| {
            is_marked |= meta.path.is_ident(mark);
            let is_known = ["skip", "cycle"].iter().any(|known| meta.path.is_ident(known));
            if is_known {
                Ok(())
            } else {
                Err(meta.error("expected `skip` or `cycle`"))
            }
        })?;
    }
    Ok(is_marked)
}

/// Fields with the names that they are bound to, and whether they are written.
fn bindings(fields: &Fields) -> syn::Result<Vec<(Ident, &Field, bool)>> {
    let bind = |(at, field): (usize, _)| Ok((format_ident!("field_{}", at), field, !is_marked(field, "skip")?));
    fields.iter().enumerate().map(bind).collect()
}

/// The pattern that binds all fields, or the expression that builds a value from them.
fn shape(fields: &Fields, bound: &[(Ident, &Field, bool)], value: impl Fn(&Ident, bool) -> TokenStream) -> TokenStream {
    let values = bound.iter().map(|(name, _, written)| value(name, *written));
    match fields {
        Fields::Named(_) => {
            let names = bound.iter().map(|(_, field, _)| &field.ident);
            quote!({ #(#names: #values),* })
        }
        Fields::Unnamed(_) => quote!(( #(#values),* )),
        Fields::Unit => quote!(),
    }
}

fn pattern(fields: &Fields, bound: &[(Ident, &Field, bool)]) -> TokenStream {
    shape(
        fields,
        bound,
        |name, written| if written { quote!(#name) } else { quote!(_) },
    )
}

fn building(fields: &Fields, bound: &[(Ident, &Field, bool)]) -> TokenStream {
    shape(fields, bound, |_, written| match written {
        true => quote!(::pgweir_freeze::Freeze::thaw(from)?),
        false => quote!(::core::default::Default::default()),
    })
}

fn described(text: &mut String, types: &mut Vec<Type>, bound: &[(Ident, &Field, bool)]) -> syn::Result<()> {
    for (_, field, _) in bound.iter().filter(|(_, _, written)| *written) {
        text.push(' ');
        text.push_str(&field.ident.as_ref().map_or_else(|| "_".into(), Ident::to_string));
        if !is_marked(field, "cycle")? {
            types.push(field.ty.clone());
        }
    }
    Ok(())
}

fn of_struct(name: &Ident, fields: &Fields) -> syn::Result<Parts> {
    let bound = bindings(fields)?;
    let (mut text, mut types) = (format!("struct {name}"), Vec::new());
    described(&mut text, &mut types, &bound)?;
    let (pattern, building) = (pattern(fields, &bound), building(fields, &bound));
    let written = bound.iter().filter(|(_, _, written)| *written).map(|(name, ..)| name);
    Ok(Parts {
        text,
        types,
        freeze: quote!(let Self #pattern = self; #(::pgweir_freeze::Freeze::freeze(#written, out);)*),
        thaw: quote!(Ok(Self #building)),
    })
}

fn of_enum<'a>(name: &Ident, variants: impl Iterator<Item = (&'a Ident, &'a Fields)>) -> syn::Result<Parts> {
    let (mut text, mut types) = (format!("enum {name}"), Vec::new());
    let (mut freezes, mut thaws) = (Vec::new(), Vec::new());
    for (at, (variant, fields)) in variants.enumerate() {
        let bound = bindings(fields)?;
        text.push_str(&format!(" | {variant}"));
        described(&mut text, &mut types, &bound)?;
        let (pattern, building) = (pattern(fields, &bound), building(fields, &bound));
        let written = bound.iter().filter(|(_, _, written)| *written).map(|(name, ..)| name);
        let at = at as u64;
        freezes.push(quote!(Self::#variant #pattern => {
            out.number(#at);
            #(::pgweir_freeze::Freeze::freeze(#written, out);)*
        }));
        thaws.push(quote!(#at => Self::#variant #building));
    }
    Ok(Parts {
        text,
        types,
        freeze: quote!(match self { #(#freezes)* }),
        thaw: quote!(Ok(match from.number()? { #(#thaws,)* _ => return Err(::pgweir_freeze::Damaged) })),
    })
}
