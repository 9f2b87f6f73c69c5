# The operator, and everything else that `muster` does, as one static binary in an image that holds nothing else.
#
#   docker build --tag REGISTRY/muster:TAG .
#   muster install --image REGISTRY/muster:TAG

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo xtask image

FROM scratch
COPY --from=build /src/target/image/muster /muster
# Nobody: the number alone, since there are no files that would give it a name.
USER 65532:65532
ENTRYPOINT ["/muster"]
