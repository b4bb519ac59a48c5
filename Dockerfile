# The image of epsilond: built in one stage, run in another one that contains the program, the shared libraries and curl,
# and nothing else (docker/root.sh). Every RUN line is plain shell, so that docker/check.sh can execute this file without
# a container engine; `make image-check` builds and runs the image.
#
#   docker build -t epsilond . && docker run -p 8080:8080 -v epsilond:/var/lib/epsilond epsilond
#
# SPDX-License-Identifier: GPL-3.0-or-later
ARG BASE=debian:12-slim
FROM ${BASE} AS build
WORKDIR /src
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends make ca-certificates curl
COPY . .
RUN make -s deps-build
RUN make -s -j2 all
RUN make -s install PREFIX=/usr DESTDIR=/out
RUN strip /out/usr/bin/epsilond
RUN sh docker/root.sh /out/usr/bin/epsilond /image

FROM scratch
COPY --from=build /image /
USER 999:999
WORKDIR /var/lib/epsilond
VOLUME /var/lib/epsilond
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/bin/epsilond"]
# Others reach it only if a port is published. Beyond the host itself, give --keys instead of --insecure.
CMD ["serve", "--listen", "0.0.0.0:8080", "--insecure", "--db", "/var/lib/epsilond/epsilond.db"]
