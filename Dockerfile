# The image of the operator: one static binary, with all commands of `muster`, and no other files.
#
#   docker build --tag REGISTRY/muster:TAG .
#   muster install --image REGISTRY/muster:TAG

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo xtask image

FROM scratch
COPY --from=build /src/target/image/muster /muster
# By number: the image has no /etc/passwd, and `runAsNonRoot` needs a number.
USER 65532:65532
ENTRYPOINT ["/muster"]
